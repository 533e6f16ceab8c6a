"""Scenarios of the traces: each function is a short script of a job."""
