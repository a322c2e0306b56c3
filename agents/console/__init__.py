"""The console's pages of who may act: agents, sessions, credentials, inhibits, switches."""

from agents.console import acts, overview, pages

__all__ = ["acts", "overview", "pages"]
