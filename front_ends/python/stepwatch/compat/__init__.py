"""Modules that replace the monitoring modules of other training programs. They need neither torch nor the extension."""
