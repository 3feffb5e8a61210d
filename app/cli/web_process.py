"""Builds the application of one web process."""

import os

from fastapi import FastAPI

from app.cli import collecting
from app.domain.threads import ONE_THREAD
from app.settings import Settings


def build(settings: Settings) -> FastAPI:
    """Return the application; the first thing that a process of several imports it by."""
    # Before numpy is imported: the products of one answer are small, and a second thread costs
    # them more than it saves. What the operator chose stays.
    for name, count in ONE_THREAD.items():
        os.environ.setdefault(name, count)
    collecting.rest()
    from app.main import build_app

    app = build_app(settings)
    collecting.settle()
    return app
