"""Modules under their names in msProbe's package."""
