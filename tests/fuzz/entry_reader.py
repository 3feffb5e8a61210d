"""Fuzzes the reader of entries that are alike: it reads what the document holds, or nothing.

`make fuzz` runs it for a minute; arguments are those of libFuzzer.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import atheris

with atheris.instrument_imports(include=["app.api.requests.entry_texts"]):
    from tests.support.entries import expect_what_the_document_holds

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
        atheris.Setup([*sys.argv, str(seeds), f"-dict={words}"], expect_what_the_document_holds)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
