"""Adapters for frameworks, one file for each, selected by the class of the objects passed to the monitor.

No file here imports a framework. An object is of a framework's class only if the job has imported the framework, and
the modules of the framework are then in `sys.modules`.
"""
