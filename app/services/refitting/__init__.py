"""Which fits are requested, by whom, and which runs they use."""
