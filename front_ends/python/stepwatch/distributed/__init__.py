"""The ranks of the job, the store that they share, and the operators by which they communicate."""
