"""Writes logs as Weights & Biases does: protobuf messages in LevelDB's log format."""

import json
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

_BLOCK, _HEADER = 32_768, 7
IDENT = b":W&B\xe1\xbe\x00"
STARTED_S = 1_795_259_000


def _varint(number: int) -> bytes:
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])


def message(*fields: tuple[int, int | str | bytes]) -> bytes:
    """Return a protobuf message."""
    text = b""
    for number, value in fields:
        if isinstance(value, int):
            text += _varint(number << 3) + _varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            text += _varint(number << 3 | 2) + _varint(len(data)) + data
    return text


def items(values: Mapping[str, Any], *, number: int = 1) -> list[tuple[int, bytes]]:
    """Return entries of a config, a summary or statistics; dotted names are nested."""
    entries = []
    for name, value in values.items():
        keys = [(2, part) for part in name.split(".")] if "." in name else [(1, name)]
        if number != 1:
            keys = [(1, name)]
        entries.append((number, message(*keys, (16, json.dumps(value)))))
    return entries


def run_record(
    run_id: str = "r1", *, config: Mapping[str, Any] | None = None, **texts: str
) -> bytes:
    """Return the record that begins a run."""
    numbers = {"project": 3, "group": 6, "job_type": 7, "name": 8, "host": 13}
    named = {"project": "Res Net", "name": "try-1", "group": "sweep", **texts}
    return message(
        (17, message(
            (1, run_id), *((numbers[name], text) for name, text in named.items()),
            (4, message(*items({"_wandb": {}, **(config or {})}))),
            (17, message((1, STARTED_S), (2, 500_000_000))),
            (21, message((1, "git@host:repo"), (2, "1f2e3d"))),
        )),
    )  # fmt: skip


def summary(values: Mapping[str, Any]) -> bytes:
    """Return a record that updates the summary."""
    return message((3, message(*items(values))))


def exit_record(code: int = 0, runtime_s: int = 61) -> bytes:
    """Return the record of a run's end; as in protobuf, zeros are left out."""
    fields = [(number, value) for number, value in ((1, code), (2, runtime_s)) if value]
    return message((18, message(*fields)))


def environment(gpu_type: str, gpu_count: int) -> bytes:
    """Return a record of the machine."""
    return message((26, message((12, "host"), (18, gpu_type), (19, gpu_count))))


def statistics(*names: str) -> bytes:
    """Return a record of the system's metrics."""
    return message((7, message(*items(dict.fromkeys(names, 1.0), number=3))))


def log(records: Iterable[bytes]) -> bytes:
    """Return the bytes of a log."""
    text = bytearray(IDENT)
    for record in records:
        rest, is_first = record, True
        while rest or is_first:
            room = _BLOCK - len(text) % _BLOCK
            if room < _HEADER:
                text += bytes(room)
                continue
            piece, rest = rest[: room - _HEADER], rest[room - _HEADER :]
            kind = (1 if not rest else 2) if is_first else (4 if not rest else 3)
            crc = zlib.crc32(bytes([kind]) + piece)
            text += crc.to_bytes(4, "little") + len(piece).to_bytes(2, "little")
            text += bytes([kind]) + piece
            is_first = False
    return bytes(text)


def written_run(
    folder: Path, *records: bytes, run_id: str = "r1", session: str = "run-20261121_110320"
) -> Path:
    """Write a run into its folder in `wandb`; return the folder."""
    place = folder / "wandb" / f"{session}-{run_id}"
    place.mkdir(parents=True)
    (place / f"run-{run_id}.wandb").write_bytes(log(records))
    return place
