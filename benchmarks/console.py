"""Where benchmarks print their tables."""

import sys

from rich.console import Console


def table_console(width: int) -> Console:
    """Return the console of tables, as wide as the terminal; `width` columns without one."""
    return Console() if sys.stdout.isatty() else Console(width=width)
