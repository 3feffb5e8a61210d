"""Cells that a spreadsheet would interpret as formulas."""

from typing import Final

_FORMULA_MARKS: Final = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Some spreadsheets accept the full-width forms, too."""


def guard_formula(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula; an upload reads it back as `text`.

    Examples
    --------
    >>> guard_formula("=1+1"), guard_formula("fp16"), guard_formula("'-5")
    ("'=1+1", 'fp16', "''-5")
    """
    return f"'{text}" if text.lstrip("'").startswith(_FORMULA_MARKS) else text


def unguard_formula(cell: str) -> str:
    """Return the text that `guard_formula` was given.

    Examples
    --------
    >>> [unguard_formula(cell) for cell in ("'=1+1", "''-5", "-5", "'fp16'")]
    ['=1+1', "'-5", '-5', "'fp16'"]
    """
    is_guarded = cell.startswith("'") and cell.lstrip("'").startswith(_FORMULA_MARKS)
    return cell[1:] if is_guarded else cell
