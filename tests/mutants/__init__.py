"""The guards, each broken in a copy of the tree: the tests have to notice."""
