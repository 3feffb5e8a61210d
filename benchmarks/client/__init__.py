"""The cost of importing the client."""
