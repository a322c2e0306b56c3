"""Functions of a user's process as the work of jobs: what they are given, and how they are run."""
