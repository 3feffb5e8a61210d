"""Replays of job traces under several scheduling policies."""
