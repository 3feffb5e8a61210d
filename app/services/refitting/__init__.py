"""Which fits are asked for, by whom, and which runs they see."""
