"""What stepwatchd notices of a real training job of two ranks that is made to fail: `./run demo --operations`."""
