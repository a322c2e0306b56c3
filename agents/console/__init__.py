"""The console's pages of who may act: agents, sessions, credentials, inhibits, switches."""

from agents.console import overview, pages

__all__ = ["overview", "pages"]
