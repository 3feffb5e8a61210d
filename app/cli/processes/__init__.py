"""The processes of a service: how they start, listen, restart each other and end."""
