"""What a training loop says of itself: numbers of steps, phases, exceptions, and what frameworks log."""
