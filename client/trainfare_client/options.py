"""Options shared by several commands: the service's address and key, and finite numbers."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection


def add_service(parser: argparse.ArgumentParser, taken: Collection[str] = ()) -> None:
    """Add the options for the service's address and key.

    `--key` is another name of the latter, as on the service's command line, unless it is `taken`
    by an option of the command itself.
    """
    parser.add_argument("--url", help="address of the service (TRAINFARE_URL)")
    names = [name for name in ("--api-key", "--key") if name not in taken]
    parser.add_argument(*names, help="key of the project (TRAINFARE_API_KEY)")


def number(text: str) -> float:
    """Return the finite number in a text; the type of every numeric option.

    Raises
    ------
    argparse.ArgumentTypeError
        If it is not one.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number")
    return value
