"""Every move on who may act, one function each, by noun."""
