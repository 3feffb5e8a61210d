"""What entries that are read from their text have to be."""

from typing import Any

import orjson

from app.api.requests.entry_texts import alike_entries


def expect_what_the_document_holds(body: bytes) -> None:
    """Check that the columns of a body, if it has any, are what a parser of JSON finds in it."""
    alike = alike_entries(body)
    if alike is None:
        return
    document = orjson.loads(body)
    entries = document["requests"]
    assert alike.n_rows == len(entries)
    assert alike.document == {**document, "requests": entries[:1]}
    # Texts differ where a whole number differs from a float, or True from 1.
    assert repr(sorted(alike.members.items())) == repr(sorted(_members_of(entries).items()))


def _members_of(entries: list[dict[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {"": {}}
    for name, member in entries[0].items():
        if isinstance(member, dict):
            members[name] = {each: [entry[name][each] for entry in entries] for each in member}
        else:
            members[""][name] = [entry[name] for entry in entries]
    return members
