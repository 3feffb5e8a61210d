"""What the client costs those who import it."""
