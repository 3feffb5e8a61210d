"""Texts that every database and every answer can carry."""

from typing import Annotated

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

_BREAKS = str.maketrans("", "", "\n\t")


def _refuse() -> PydanticCustomError:
    return PydanticCustomError(
        "printable",
        "The text has characters that cannot be printed",
        {"remedy": "Remove control characters and unpaired surrogates."},
    )


def _printable(text: str | None) -> str | None:
    if text is not None and not text.isprintable():
        raise _refuse()
    return text


def _paragraphs(text: str) -> str:
    if not text.translate(_BREAKS).isprintable():
        raise _refuse()
    return text


Printable = Annotated[str, AfterValidator(_printable)]
"""One line of text."""
Paragraphs = Annotated[str, AfterValidator(_paragraphs)]
"""Text with line breaks."""
