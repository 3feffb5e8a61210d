"""What an operator asks of a running service: one check, and how it came out."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at: whether it is well, what was seen, and what mends it."""

    name: str
    is_ok: bool
    detail: str
    remedy: str = ""
