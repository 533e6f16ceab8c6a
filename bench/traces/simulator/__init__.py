"""A training job in virtual time: its progress, its faults, and the lines of an observer."""
