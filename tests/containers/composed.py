"""A compose project of the trial's own: its name, its secrets, its port, and its end."""

import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Self

from tests.containers.asking import ROOT

_NAME: Final = "trainfare-trial"
_LONGEST_S: Final = 1800
"""Of one command: the first one builds the image."""


@dataclass(frozen=True, slots=True)
class Composed:
    """A compose project.

    Attributes
    ----------
    settings
        The file of its settings.
    """

    settings: Path

    @classmethod
    @contextmanager
    def started(cls) -> Iterator[Self]:
        """Give a project that is removed at the end with its volumes."""
        with TemporaryDirectory() as folder:
            project = cls(Path(folder) / "env")
            # Of port 0 the engine makes one that is free.
            project.settings.write_text(
                f"POSTGRES_PASSWORD={secrets.token_hex(16)}\n"
                "TRAINFARE_PUBLISHED_PORT=0\nTRAINFARE_FITTER_PROCESSES=2\n"
            )
            try:
                yield project
            finally:
                project.run("--profile", "ray", "down", "--volumes", "--remove-orphans")

    def run(self, *arguments: str, check: bool = True) -> str:
        """Run one command of compose to its end and return what it printed.

        Raises
        ------
        AssertionError
            If it fails and `check` is not off, with what it said.
        """
        return self.pipe(*arguments, check=check).decode()

    def pipe(self, *arguments: str, data: bytes = b"", check: bool = True) -> bytes:
        """Run one command of compose, with bytes on its standard input and output.

        Raises
        ------
        AssertionError
            As `run` does.
        """
        command = ["docker", "compose", "-p", _NAME, "--env-file", str(self.settings), *arguments]
        # A variable of the caller's would go before the file.
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("TRAINFARE_")}
        ended = subprocess.run(
            command, cwd=ROOT, env=inherited, input=data, capture_output=True, timeout=_LONGEST_S,
            check=False,
        )  # fmt: skip
        message = ended.stderr.decode(errors="replace")[-2000:]
        assert not check or ended.returncode == 0, f"{' '.join(arguments)}: {message}"
        return ended.stdout

    def url(self) -> str:
        """Return where the service answers on this machine."""
        return f"http://{self.run('port', 'api', '8000').strip()}"

    def logs(self) -> str:
        """Return the last lines that each container wrote."""
        return self.run("--profile", "ray", "logs", "--tail", "30", check=False)

    def exit_code(self, service: str) -> int:
        """Return how the container of a stopped service ended."""
        output = self.run("--profile", "ray", "ps", "--all", "--format", "{{.ExitCode}}", service)
        return int(output.split()[0])
