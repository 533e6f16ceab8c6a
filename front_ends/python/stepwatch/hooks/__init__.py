"""Hooks on modules and parameters, wrappers around optimizers, and what is computed in them.

Nothing here knows how ranks talk to each other; `stepwatch.attachment` puts it together for one monitor.
"""
