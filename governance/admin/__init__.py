"""The console's pages of the ground: audit trail, facts, keys, runs; models, routes, money."""

from governance.admin import acts, ground, money

__all__ = ["acts", "ground", "money"]
