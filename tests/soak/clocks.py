"""Clocks of single processes that jump, like a machine's clock when it is set."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

_SOURCE: Final = Path(__file__).with_name("stepping_clock.c")


class Clock:
    """The wall clock of one process; its monotonic clock is unaffected."""

    def __init__(self, library: Path, file: Path) -> None:
        self._library, self._file = library, file
        self.step(0)

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables with which a process uses this clock."""
        return {"LD_PRELOAD": str(self._library), "SOAK_CLOCK": str(self._file)}

    def step(self, seconds: int) -> None:
        """Set the clock's offset from the correct time, in seconds."""
        # Written in place, because the process has the file mapped.
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(seconds.to_bytes(8, "little", signed=True))


class ClockFactory:
    """Makes clocks in a folder, if there is Linux and a C compiler."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._library = folder / "stepping_clock.so"
        self._number = 0
        compiler = shutil.which("cc")
        self.is_available = compiler is not None and self._build(compiler)

    def _build(self, compiler: str) -> bool:
        command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(self._library), str(_SOURCE)]
        return subprocess.run(command, check=False).returncode == 0

    def make(self) -> Clock | None:
        """Return a correct clock, None if none can be made."""
        if not self.is_available:
            return None
        self._number += 1
        return Clock(self._library, self._folder / f"clock-{self._number}")
