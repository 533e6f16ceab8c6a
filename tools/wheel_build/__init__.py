"""Builds and tests the wheels: `./run wheel`."""
