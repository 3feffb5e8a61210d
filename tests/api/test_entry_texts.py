"""Entries read from their text: what is read is what the whole document holds, or nothing is."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.api.requests.columns import members_of
from app.api.requests.entry_texts import alike_entries
from tests.support.entries import expect_what_the_document_holds

numbers = st.one_of(st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False))
words = st.one_of(
    st.text(max_size=6), st.sampled_from(['", "work": ', "\n", "\\", "}, {", "ü", ","])
)
scalars = st.one_of(st.none(), st.booleans(), numbers, words)
NAMES = ["a", "b", "workers", "batch_size", "ü", "ref", "requests"]
members = st.lists(st.sampled_from(NAMES), unique=True, max_size=3)
WRITTEN = [
    {},
    {"separators": (",", ":")},
    {"ensure_ascii": False},
    {"indent": 1},
    {"separators": (" , ", " :\t")},
]


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Return a document whose entries have the same names in the same order."""
    beside = draw(members)
    groups = {name: draw(members) for name in ("configuration", "work", "parameters")}
    entries = [
        {
            **{name: draw(scalars) for name in beside},
            **{group: {name: draw(scalars) for name in names} for group, names in groups.items()},
        }
        for _ in range(draw(st.integers(1, 4)))
    ]
    no_members: dict[str, Any] = {}
    before = draw(
        st.sampled_from([no_members, {"defaults": {"workload": "w", "requests": [{"a": 1}]}}])
    )
    behind = draw(st.sampled_from([no_members, {"fields": ["cost"]}, {"requests": [{"ref": 1}]}]))
    return {**before, "requests": entries, **behind}


@given(documents(), st.sampled_from(WRITTEN))
def test_values_are_those_of_the_document(document: dict[str, Any], written: Any) -> None:
    body = json.dumps(document, **written).encode()

    expect_what_the_document_holds(body)


BODY = json.dumps(
    {
        "defaults": {"workload": "w"},
        "requests": [
            {"ref": f"{row}", "work": {"epochs": row, "batch_size": 2.5}, "x": None}
            for row in range(3)
        ],
        "fields": ["cost"],
    }
).encode()
PIECES = [
    b", ",
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b":",
    b"\\",
    b"1",
    b" ",
    b"\n",
    b"\v",
    b'"ref": ',
    b"0",
    b"-",
]


@given(
    st.lists(
        st.tuples(st.integers(0, len(BODY)), st.integers(0, 12), st.sampled_from([b"", *PIECES])),
        max_size=3,
    )
)
@example([])
def test_a_text_that_was_tampered_with_is_read_as_it_is_or_not_at_all(
    changes: list[tuple[int, int, bytes]],
) -> None:
    body = BODY
    for start, length, piece in changes:
        body = body[:start] + piece + body[start + length :]

    expect_what_the_document_holds(body)


@pytest.mark.parametrize("space", [b"\v", b"\f"])
@pytest.mark.parametrize("place", [b'"requests"%b: [{', b'"requests":%b [{', b'"requests": [%b{'])
def test_spaces_that_json_lacks_are_left_to_others(place: bytes, space: bytes) -> None:
    head = place.replace(b"%b", space)

    assert alike_entries(b'{%b"a": 1}, {"a": 2}]}' % head) is None
    assert alike_entries(b'{"requests": [{"a": 1},%b{"a": 2}]}' % space) is None


@pytest.mark.parametrize("indent", [None, 2])
def test_what_a_program_writes_is_read_in_columns(indent: int | None) -> None:
    entries = [
        {"configuration": {"gpu_type": "T4", "workers": row}, "parameters": {}, "ref": row}
        for row in range(12)
    ]
    body = json.dumps({"requests": entries}, indent=indent).encode()

    alike = alike_entries(body)

    assert alike is not None
    assert alike.members == members_of(entries)


@pytest.mark.parametrize(
    "requests",
    [
        b'[{"a": 1}]',
        b'[{"a": 1}, {"a":2}]',
        b'[{"a": 1}, {"b": 2}]',
        b'[{"a": 1, "a": 2}, {"a": 1, "a": 2}]',
        b'[{"a": [1]}, {"a": [1]}]',
        b'[{"a": {"b": {"c": 1}}}, {"a": {"b": {"c": 1}}}]',
        b'[{"a": "1, "b": 2}, {"a": 1", "b": 2}]',
        b'[{"a": 1, "b": 2}, {"a": 1, 0, 2}, {"a": 1, "b": 2}]',
        b"[{}, {}]",
        b"[{}]",
    ],
    ids=bytes.decode,
)
def test_what_differs_from_the_first_entry_is_left_to_others(requests: bytes) -> None:
    assert alike_entries(b'{"requests": %b}' % requests) is None


def test_a_first_entry_that_is_alone_in_its_form_leaves_the_document_to_others() -> None:
    # Without spaces, what is read in place of the last entry is the name of the list.
    assert alike_entries(b'{"requests":[{"a":1},{"b":2}]}') is None
