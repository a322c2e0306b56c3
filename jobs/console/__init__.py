"""The console's pages of jobs: lists, the job page, inbox and overview."""

from jobs.console import inbox, lists, overview

__all__ = ["inbox", "lists", "overview"]
