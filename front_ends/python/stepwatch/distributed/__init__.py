"""The ranks of the job: who they are, the store that they share, the operators by which they communicate."""
