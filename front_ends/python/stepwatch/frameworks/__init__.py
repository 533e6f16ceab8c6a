"""What the monitor has to know of the frameworks that it meets: one file for each, chosen by the objects handed over.

No file here imports a framework. An object is of a framework's class only if the job has imported the framework, and
what is needed beside the object is then in `sys.modules`.
"""
