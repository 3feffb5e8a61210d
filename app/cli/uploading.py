"""Uploads files of measured runs, with a progress bar over their bytes."""

import hashlib
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import httpx2
from rich.progress import Progress, TaskID

from app.cli.connection import Connection, document_of
from app.cli.failures import UsageError
from app.cli.output import bytes_progress

_TYPES: Final[Mapping[str, str]] = {
    ".csv": "text/csv",
    ".json": "application/json",
    ".ndjson": "application/x-ndjson",
    ".jsonl": "application/x-ndjson",
}
_ENCODINGS: Final[Mapping[str, str]] = {".gz": "gzip", ".zst": "zstd"}
_CHUNK_BYTES: Final = 1 << 18


def headers_of(path: Path) -> dict[str, str]:
    """Return content type and encoding by a file's name.

    Raises
    ------
    UsageError
        If the name tells no type that the service reads.
    """
    encoding = _ENCODINGS.get(path.suffix.casefold())
    plain = path.with_suffix("") if encoding else path
    content_type = _TYPES.get(plain.suffix.casefold())
    if content_type is None:
        known = ", ".join(_TYPES)
        raise UsageError(
            f"{path}: the name tells no type.", f"Name it {known}, each also with .gz or .zst."
        )
    return {"Content-Type": content_type} | ({"Content-Encoding": encoding} if encoding else {})


def _content_key(path: Path, headers: Mapping[str, str], parameters: Mapping[str, str]) -> str:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    digest.update(repr((sorted(headers.items()), sorted(parameters.items()))).encode())
    return "content-" + digest.hexdigest()


def _chunks(path: Path, progress: Progress, task: TaskID) -> Iterator[bytes]:
    progress.reset(task, start=True)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk
            progress.advance(task, len(chunk))


def upload(
    connection: Connection, path: Path, parameters: Mapping[str, str], *, again: bool = False
) -> dict[str, Any]:
    """Upload one file and return the answer, with `replayed` when it was uploaded before.

    The idempotency key is the content's hash, so that a command that was interrupted can be
    repeated; `again` takes a new one.
    """
    headers = headers_of(path)
    key = str(uuid.uuid4()) if again else _content_key(path, headers, parameters)
    headers |= {
        "Idempotency-Key": key,
        "Content-Length": str(path.stat().st_size),
    }
    with bytes_progress() as progress:
        task = progress.add_task(path.name, total=path.stat().st_size)

        def send(client: httpx2.Client) -> httpx2.Response:
            content = _chunks(path, progress, task)
            return client.post("/v1/runs", params=parameters, headers=headers, content=content)

        answer = connection.ask_with(send)
    document: dict[str, Any] = document_of(answer)
    return {**document, "replayed": answer.headers.get("idempotent-replayed") == "true"}
