"""Replays of job traces under several policies of scheduling."""
