"""Texts that every database and every response can hold, stripped of surrounding white space."""

from typing import Annotated, Final

from pydantic import AfterValidator, StringConstraints
from pydantic_core import PydanticCustomError

from app.domain.wording import say_unprintable

_BREAKS = str.maketrans("", "", "\n\t")


def _refuse(text: str) -> PydanticCustomError:
    return PydanticCustomError(
        "printable",
        "The text has characters that cannot be printed, the first is {first}",
        {
            "first": say_unprintable(text),
            "remedy": "Remove control characters, unpaired surrogates and special spaces.",
        },
    )


def _printable(text: str | None) -> str | None:
    if text is not None and not text.isprintable():
        raise _refuse(text)
    return text


def _paragraphs(text: str) -> str:
    line = text.translate(_BREAKS)
    if not line.isprintable():
        raise _refuse(line)
    return text


IS_PRINTABLE: Final = AfterValidator(_printable)
STRIPPED: Final = StringConstraints(strip_whitespace=True)
"""Strips like uploads strip cells, so that a stored value is found by the text that was sent."""
Printable = Annotated[str, STRIPPED, IS_PRINTABLE]
"""One line of text."""
Verbatim = Annotated[str, IS_PRINTABLE]
"""One line of text as the caller wrote it: a `ref` that is echoed, or a member's name."""
Paragraphs = Annotated[str, STRIPPED, AfterValidator(_paragraphs)]
"""Text with line breaks."""
