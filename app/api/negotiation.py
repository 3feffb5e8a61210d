"""The names of the forms in which answers come."""

from typing import Final

JSON: Final = "application/json"
TEXT: Final = "text/plain"
CSV: Final = "text/csv"
