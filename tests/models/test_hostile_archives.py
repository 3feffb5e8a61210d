"""Containers that declare what they are not: refused before they take memory."""

import hashlib
import tracemalloc

import pytest

from models import ArtifactError, loads
from models.state.packing import MAGIC, MAX_PART_BYTES, MAX_PARTS, pack, unpack


def _container(table: bytes, rest: bytes = b"", length: int | None = None) -> bytes:
    body = (len(table) if length is None else length).to_bytes(4, "big") + table + rest
    return MAGIC + hashlib.sha256(body).digest() + body


def test_parts_come_back_as_they_were_and_begin_where_numbers_may() -> None:
    parts = {"b": b"", "a": b"odd", "c": bytes(range(200))}

    unpacked = unpack(pack(parts))

    assert {name: bytes(part) for name, part in unpacked.items()} == parts
    assert pack(parts) == pack(dict(reversed(parts.items())))
    assert pack(parts).index(parts["c"]) % 64 == 0


@pytest.mark.parametrize(
    ("hostile", "reason"),
    [
        (_container(b""), "table of parts is damaged"),
        (_container(b"[1]"), "table of parts is damaged"),
        (_container(b'[["a"]]'), "table of parts is damaged"),
        (_container(b'{"ab":1}'), "table of parts is damaged"),
        (_container(b"[[1,0]]"), "table of parts is damaged"),
        (_container(b'[["a",0.0]]'), "table of parts is damaged"),
        (_container(b'[["a",true]]'), "table of parts is damaged"),
        (_container(b'[["a",-1]]'), "a larger part than any"),
        (_container(b'[["a",%d]]' % (MAX_PART_BYTES + 1)), "a larger part than any"),
        (_container(b"[%s]" % b",".join([b'["a",0]'] * (MAX_PARTS + 1))), "more parts than any"),
        (_container(b"[]", length=2**32 - 1), "more parts than any"),
        (_container(b"[]", length=300), "other parts than it declares"),
        (_container(b'[["a",1000]]', bytes(70)), "other parts than it declares"),
        (_container(b"[]", b"more"), "other parts than it declares"),
        (_container(b'[["a",0],["a",0]]', bytes(1)), "other parts than it declares"),
    ],
)
def test_table_that_does_not_tell_the_parts_is_refused(hostile: bytes, reason: str) -> None:
    with pytest.raises(ArtifactError, match=reason):
        loads(hostile)


def test_absurd_lengths_take_no_memory() -> None:
    table = b"[%s]" % b",".join(b'["%d",%d]' % (name, MAX_PART_BYTES) for name in range(MAX_PARTS))
    hostile = _container(table)

    tracemalloc.start()

    with pytest.raises(ArtifactError, match="other parts than it declares"):
        loads(hostile)

    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


def test_artefact_of_a_former_container_is_refused_with_advice() -> None:
    with pytest.raises(ArtifactError, match="former format; fit the workload again"):
        loads(b"TRAINFARE\x01" + bytes(100))
