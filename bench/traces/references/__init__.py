"""Rules of other systems, and a simple detector, with the interface of ``stepwatchd replay``."""
