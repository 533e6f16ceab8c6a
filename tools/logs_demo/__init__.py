"""The demo of jobs that are known by their log files alone."""
