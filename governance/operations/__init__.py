"""What all operations share: calls of the service, whatever carries them."""
