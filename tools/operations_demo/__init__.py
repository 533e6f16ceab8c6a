"""Faults of a real training job of two ranks, and the incidents that stepwatchd reports: `./run demo --operations`."""
