"""Escapes foreign text for Markdown, so that it adds no markup, links or mentions."""

import re
from typing import Final

_ZERO_WIDTH_SPACE: Final = "\N{ZERO WIDTH SPACE}"
_REFERENCE: Final = re.compile(
    r"""(?<=[@#!$%^&~:])(?=[\w"'{/])   # people, issues, labels, milestones, emoji, schemes
      | (?<=\bgh-)(?=\d) | (?<=\bwww)(?=\.)""",
    re.IGNORECASE | re.VERBOSE,
)
"""Where GitHub and GitLab would start an automatic link, even in escaped text."""

_ESCAPES: Final = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;"} | {sign: f"\\{sign}" for sign in "\\`*~[]|"}
)
_EMPHASIS: Final = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
"""Underscores that could mark emphasis; one within a word cannot."""


def as_text(text: str) -> str:
    r"""Return Markdown that shows a text literally, without links, images, emphasis or mentions.

    Examples
    --------
    >>> print(as_text("[a](b) <b> *c* _d_ e_f 4 x T4 (+12%)"))
    \[a\](b) &lt;b&gt; \*c\* \_d\_ e_f 4 x T4 (+12%)
    >>> print(ascii(as_text("@ada #12")))
    '@\u200bada #\u200b12'
    """
    line = _REFERENCE.sub(_ZERO_WIDTH_SPACE, " ".join(text.split()))
    return _EMPHASIS.sub(r"\\_", line.translate(_ESCAPES))


def as_code(text: str) -> str:
    r"""Return Markdown that shows a text as code, also within a table cell.

    Examples
    --------
    >>> print(as_code("a|b <@ada>"))
    `a\|b <@ada>`
    """
    line = " ".join(text.split()).replace("`", "'")
    return f"`{line.replace('|', chr(92) + '|')}`"
