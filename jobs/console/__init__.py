"""The console's pages of jobs: lists, the job page, acts, inbox and overview."""

from jobs.console import acts, inbox, lists, overview

__all__ = ["acts", "inbox", "lists", "overview"]
