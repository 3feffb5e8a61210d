"""Where fits are computed: a pure task in a process of its own, or on a Ray cluster."""
