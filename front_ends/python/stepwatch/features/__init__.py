"""L2 features of the modules that a plan names: their hooks and their computation."""
