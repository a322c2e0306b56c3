"""The model gateway: what a program behind the worker calls models through."""
