"""Uploads files of measured runs, with a progress bar in bytes."""

import hashlib
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import httpx2
from rich.progress import Progress, TaskID

from app.cli.connection import Connection, checked, document_of, is_refusal
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
_STABLE_KEYS: Final = 8
"""Keys derived from a file's content; after that many old refusals, random ones are used."""


def headers_of(path: Path) -> dict[str, str]:
    """Return the content type and encoding headers for a file name.

    Raises
    ------
    UsageError
        If the name does not indicate a type that the service reads.
    """
    encoding = _ENCODINGS.get(path.suffix.casefold())
    plain = path.with_suffix("") if encoding else path
    content_type = _TYPES.get(plain.suffix.casefold())
    if content_type is None:
        known = ", ".join(_TYPES)
        raise UsageError(
            f"{path}: the name shows no file type.", f"Name it {known}, each also with .gz or .zst."
        )
    return {"Content-Type": content_type} | ({"Content-Encoding": encoding} if encoding else {})


def _content_key(path: Path, headers: Mapping[str, str], parameters: Mapping[str, str]) -> str:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    digest.update(repr((sorted(headers.items()), sorted(parameters.items()))).encode())
    return "content-" + digest.hexdigest()


def _keys(
    path: Path, headers: Mapping[str, str], parameters: Mapping[str, str], *, again: bool
) -> Iterator[str | None]:
    """Yield the idempotency keys for a file: the next is used if an old refusal is replayed.

    They depend on the content alone, so that it is stored once however often it is sent; a dry run
    needs none.
    """
    if "dry_run" in parameters:
        yield None
        return
    if not again:
        first = _content_key(path, headers, parameters)
        yield first
        yield from (f"{first}-{number}" for number in range(2, _STABLE_KEYS + 1))
    yield str(uuid.uuid4())


def _chunks(path: Path, progress: Progress, task: TaskID) -> Iterator[bytes]:
    progress.reset(task, start=True)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk
            progress.advance(task, len(chunk))


def upload(
    connection: Connection, path: Path, parameters: Mapping[str, str], *, again: bool = False
) -> dict[str, Any]:
    """Upload one file and return the answer, with `replayed` true if it was uploaded before.

    The idempotency key is a hash of the content, so that an interrupted command can be repeated;
    `again` uses a new key. A replayed refusal does not count, as its cause may have been removed:
    the file is sent again under another key.
    """
    headers = headers_of(path)
    keys = _keys(path, headers, parameters, again=again)
    size = path.stat().st_size
    with bytes_progress() as progress:
        task = progress.add_task(path.name, total=size)

        def send(key: str | None) -> httpx2.Response:
            key_header = {"Idempotency-Key": key} if key else {}
            request_headers = {**headers, "Content-Length": str(size), **key_header}

            def post(client: httpx2.Client) -> httpx2.Response:
                content = _chunks(path, progress, task)
                return client.post(
                    "/v1/runs", params=parameters, headers=request_headers, content=content
                )

            return connection.answer_to(post)

        answer = next(candidate for candidate in map(send, keys) if not _is_old_refusal(candidate))
    document: dict[str, Any] = document_of(checked(answer), "created")
    return {**document, "replayed": _is_replayed(answer)}


def _is_old_refusal(answer: httpx2.Response) -> bool:
    return is_refusal(answer) and _is_replayed(answer)


def _is_replayed(answer: httpx2.Response) -> bool:
    return answer.headers.get("idempotent-replayed") == "true"
