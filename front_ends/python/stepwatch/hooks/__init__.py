"""Hooks on modules and parameters, wrappers around optimizers, and the computations in them.

This package does not depend on the communication of ranks; `stepwatch.attachment` combines its parts for one monitor.
"""
