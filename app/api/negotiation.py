"""The names of the forms in which answers come."""

from typing import Final

JSON: Final = "application/json"
TEXT: Final = "text/plain"
CSV: Final = "text/csv"
MARKDOWN: Final = "text/markdown"
ALL_TYPES: Final = (JSON, TEXT, CSV, MARKDOWN)
"""JSON leads everywhere: who prefers it to all of these is answered in it by every route."""
