"""Callers: anonymous ones, and those named by an issuer's token."""
