"""What builds the wheels, and tries them: `./run wheel`."""
