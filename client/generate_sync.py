"""Writes `trainfare_client/_sync` from `trainfare_client/_async`; with --check only compares.

The asynchronous client is the one source of the logic; the synchronous one is the same text
without `async` and `await`. Needs ruff, for the form of the result.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent / "trainfare_client"
REPLACEMENTS: Final = (
    (r"\basync (def|with|for) ", r"\1 "),
    (r"\bawait ", ""),
    (r"\basyncio\.sleep", "time.sleep"),
    (r"\bimport asyncio\b", "import time"),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\b__a(enter|exit)__\b", r"__\1__"),
    (r"\ba(close|read|iter_lines)\(", r"\1("),
    (r"\bAsync([A-Z]\w+)", r"\1"),
    (r"trainfare_client\._async", "trainfare_client._sync"),
)
PACKAGE_DOCSTRING: Final = (
    '"""The synchronous client, generated from `_async` by `generate_sync.py`."""\n'
)


def generated(source: str) -> str:
    """Return the synchronous text of an asynchronous module, formatted."""
    for pattern, replacement in REPLACEMENTS:
        source = re.sub(pattern, replacement, source)
    for arguments in (["check", "--quiet", "--fix", "--select", "I"], ["format", "--quiet"]):
        source = subprocess.run(
            [sys.executable, "-m", "ruff", *arguments, "--stdin-filename", str(HERE / "x.py"), "-"],
            input=source,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    return source


def main() -> int:
    """Write or compare every module; return the exit code."""
    stale = []
    for file in sorted((HERE / "_async").glob("*.py")):
        target = HERE / "_sync" / file.name
        text = PACKAGE_DOCSTRING if file.name == "__init__.py" else generated(file.read_text())
        if "--check" not in sys.argv:
            target.write_text(text)
        elif not target.exists() or target.read_text() != text:
            stale.append(file.name)
    if stale:
        sys.stderr.write(f"Stale: {', '.join(stale)}; run python client/generate_sync.py\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
