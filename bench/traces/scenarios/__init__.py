"""What the traces tell: one function a guise, each a short script of a job."""
