"""Types `trainfare import ...` and reads what it says."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path

import pytest
from trainfare_client.importers.command import main


@dataclass(frozen=True)
class ImportResult:
    """What an import said."""

    exit_code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, str]]:
        """The rows of a dry run, without empty cells."""
        assert self.exit_code == 0, self.err
        rows = csv.DictReader(io.StringIO(self.out))
        return [{name: cell for name, cell in row.items() if cell} for row in rows]


class Importing:
    """Runs the command in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str], url: str = "") -> None:
        self._capsys = capsys
        self._url = url

    def __call__(self, *arguments: object) -> ImportResult:
        """Run `trainfare import ARGUMENTS`."""
        url = ["--url", self._url] if self._url else []
        self._capsys.readouterr()
        exit_code = main([*(str(word) for word in arguments), *url])
        captured = self._capsys.readouterr()
        return ImportResult(exit_code, captured.out, captured.err)

    def dry(self, source: str, *arguments: object) -> list[dict[str, str]]:
        """Return the rows of a dry run."""
        return self(source, *arguments, "--dry-run").rows


def written(file: Path, text: str) -> Path:
    """Write a text to a file and return the file."""
    file.write_text(text, encoding="utf-8")
    return file
