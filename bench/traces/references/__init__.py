"""Rules of others, and a plain detector, behind the interface of ``stepwatchd replay``."""
