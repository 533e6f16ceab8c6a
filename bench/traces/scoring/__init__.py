"""Reads answers of ``stepwatchd replay``, compares them with labels, and prints tables."""
