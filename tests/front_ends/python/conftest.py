"""Fixtures of several files."""

from internevo_world import bot, context, fresh

__all__ = ["bot", "context", "fresh"]
