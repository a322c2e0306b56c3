"""The model gateway: an address on loopback through which a program's model calls are governed."""
