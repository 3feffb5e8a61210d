"""A small separate disk that can be filled, if the user who runs the tests may mount one."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_PAGE_BYTES: Final = 4096
_TRIES: Final = 20


class SmallDisk:
    """A mounted in-memory file system whose size can be changed while in use."""

    def __init__(self, path: Path, size_bytes: int) -> None:
        self.path = path
        self._size_bytes = size_bytes

    def fill(self) -> None:
        """Leave no room, so that further writes find the disk full."""
        for _ in range(_TRIES):
            state = os.statvfs(self.path)
            used = max((state.f_blocks - state.f_bfree) * state.f_frsize, _PAGE_BYTES)
            # Fails if something was written meanwhile: then more space is in use.
            if _mount("-o", f"remount,size={used}", str(self.path)):
                return
        raise AssertionError("somebody writes faster than the disk can be made small")

    def free(self) -> None:
        """Restore the full size."""
        assert _mount("-o", f"remount,size={self._size_bytes}", str(self.path))


def _mount(*arguments: str) -> bool:
    command = ["mount", *arguments]
    try:
        process = subprocess.run(command, check=False, stderr=subprocess.DEVNULL)
    except FileNotFoundError:
        return False
    return process.returncode == 0


@contextmanager
def small_disk(size_bytes: int) -> Iterator[SmallDisk | None]:
    """Yield a disk of at most `size_bytes`, None if mounting is not permitted (only root may)."""
    with tempfile.TemporaryDirectory(prefix="trainfare-disk-") as folder:
        # The server that uses it runs as another user.
        Path(folder).chmod(0o755)
        path = Path(folder) / "disk"
        path.mkdir()
        options = f"size={size_bytes},mode=0755"
        if not _mount("-t", "tmpfs", "-o", options, "trainfare-tests", str(path)):
            yield None
            return
        try:
            yield SmallDisk(path, size_bytes)
        finally:
            # Lazy: a process that has just died may still hold an open file.
            subprocess.run(["umount", "-l", str(path)], check=True)
