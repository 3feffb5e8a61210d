"""Builds the application of one web process."""

from fastapi import FastAPI

from app.cli import collecting
from app.settings import Settings


def build(settings: Settings) -> FastAPI:
    """Return the application; the first thing that a process of several imports it by."""
    collecting.rest()
    from app.main import build_app

    app = build_app(settings)
    collecting.settle()
    return app
