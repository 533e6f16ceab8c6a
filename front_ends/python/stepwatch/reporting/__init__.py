"""Reports of the training loop: numbers of steps, phases, exceptions, and logs of frameworks."""
