"""The console's pages of the ground: audit, facts, sinks, keys, runs; models, routes, money."""

from governance.admin import acts, ground, money, streams

__all__ = ["acts", "ground", "money", "streams"]
