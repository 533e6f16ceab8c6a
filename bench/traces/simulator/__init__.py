"""A training job in virtual time: what it does, what goes wrong, and what an observer sees of it."""
