"""What further runs would tell, and what is known before the first run."""
