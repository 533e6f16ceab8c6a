"""Modules under the names that they have in msProbe's package."""
