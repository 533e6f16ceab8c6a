"""Hooks on modules and parameters, and what they need to know of the model.

This package does not depend on the communication of ranks; `stepwatch.attachment` combines hooks, optimizers and
features for one monitor.
"""
