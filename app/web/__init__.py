"""The web page; it talks to the API like any other client."""
