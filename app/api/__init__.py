"""The HTTP door: words on the wire, nothing decided here."""
