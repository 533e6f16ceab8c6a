"""What holds for all tests in Python: seeds, and the threads that the processes of pytest-xdist share."""
