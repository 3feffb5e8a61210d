"""Fuzzes the reader of entries that are alike: it reads what the document holds, or nothing.

`make fuzz` runs it for a minute; arguments are those of libFuzzer.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import atheris
import orjson

with atheris.instrument_imports(include=["app.api.requests.entry_texts"]):
    from app.api.requests.entry_texts import alike_entries

_SEEDS = (
    b'{"requests": [{"ref": "a", "work": {"epochs": 1}}, {"ref": "b", "work": {"epochs": 2}}]}',
    (
        b'{"defaults":{"workload":"w"},"requests":[{"a":{"b":"}, {"},"ref":null},{"a":{"b":1.5e3},'
        b'"ref":"\\""}],"fields":["cost"]}'
    ),
    (
        b'{"requests":[\n {\n  "a": {\n   "b": "\\u00fc"\n  }\n },\n'
        b' {\n  "a": {\n   "b": true\n  }\n }\n]}'
    ),
)
_WORDS = ('"requests":[', "},{", "}, {", '":', '"a":1', '"b":{', "\\\\", '\\"', "null", "]}", "[")


def read(body: bytes) -> None:
    """Read a batch; what is read must be what a parser of JSON finds."""
    alike = alike_entries(body)
    if alike is None:
        return
    document = orjson.loads(body)
    entries = document["requests"]
    assert alike.n_rows == len(entries)
    assert alike.document == {**document, "requests": entries[:1]}
    assert _in_order(alike.members) == _in_order(_members_of(entries))


def _members_of(entries: list[dict[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {"": {}}
    for name, member in entries[0].items():
        if isinstance(member, dict):
            members[name] = {each: [entry[name][each] for entry in entries] for each in member}
        else:
            members[""][name] = [entry[name] for entry in entries]
    return members


def _in_order(members: Any) -> str:
    """Return a text that differs where a whole number differs from a float, or True from 1."""
    return repr(sorted(members.items()))


def main() -> None:
    """Fuzz until the limits of the command line."""
    with TemporaryDirectory() as folder:
        seeds = Path(folder) / "seeds"
        seeds.mkdir()
        for number, seed in enumerate(_SEEDS):
            (seeds / str(number)).write_bytes(seed)
        words = Path(folder) / "words"
        lines = [word.replace("\\", "\\\\").replace('"', '\\"') for word in _WORDS]
        words.write_text("".join(f'"{line}"\n' for line in lines))
        atheris.Setup([*sys.argv, str(seeds), f"-dict={words}"], read)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
