"""The image and the compose file on a real container engine: ``python -m tests.containers``."""
