"""The floors that answer HTTP: no service on this stack can be faster."""

import tempfile
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from fastapi import FastAPI

_ANSWER: Final = b'{"duration_seconds":{"median":33120.0,"lower":30660.0,"upper":37200.0}}'
_HEADERS: Final = [
    (b"content-type", b"application/json"),
    (b"content-length", str(len(_ANSWER)).encode()),
]


async def bare(scope: Any, receive: Any, send: Any) -> None:
    """Read the body and answer a constant: the ASGI protocol and nothing else."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body", False):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    await send({"type": "http.response.body", "body": _ANSWER})


def empty() -> FastAPI:
    """Return an application with one route that reads a constant from an SQLite database."""
    folder = tempfile.mkdtemp(prefix="floor-")
    engine = sa.create_engine(f"sqlite:///{Path(folder) / 'empty.db'}")
    app = FastAPI()

    @app.get("/one")
    def one() -> dict[str, int]:
        with engine.connect() as connection:
            return {"one": connection.execute(sa.text("SELECT 1")).scalar_one()}

    return app
