"""The HTTP interface: it translates between wire and services, and decides nothing."""
