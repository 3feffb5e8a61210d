"""The media types of responses."""

from typing import Any, Final

JSON: Final = "application/json"
TEXT: Final = "text/plain"
CSV: Final = "text/csv"

PLAIN_TEXT: Final[dict[str, Any]] = {"schema": {"type": "string"}}
"""A text response in the OpenAPI document."""
