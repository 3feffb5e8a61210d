"""The media types of responses."""

from typing import Final

JSON: Final = "application/json"
TEXT: Final = "text/plain"
CSV: Final = "text/csv"
