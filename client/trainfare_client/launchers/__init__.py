"""Hooks of launchers: they know what an hour costs, and learn here how many a task takes."""
