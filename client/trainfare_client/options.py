"""What several commands take: the service's address and key, and numbers that have an end."""

from __future__ import annotations

import argparse
import math


def add_service(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which service is asked, and with which key."""
    parser.add_argument("--url", help="address of the service (TRAINFARE_URL)")
    parser.add_argument("--api-key", help="key of the project (TRAINFARE_API_KEY)")


def number(text: str) -> float:
    """Return the finite number that a text is; the type of every option for a number.

    Raises
    ------
    argparse.ArgumentTypeError
        If it is none.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is no finite number")
    return value
