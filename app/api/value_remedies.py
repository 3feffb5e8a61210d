"""Remedies for values that a schema refuses, by kind of error."""

from collections.abc import Mapping
from typing import Any, Final

_WHOLE, _NUMBER, _OBJECT = "Send a whole number.", "Send a number.", "Send an object: {{...}}."
_PLAIN: Final = "Send a plain number, with a point before decimals."
_LIST = "Send a list: [...]."
_INSTANT: Final = "Send an instant with its offset, such as 2026-11-01T10:00:00Z."
REMEDIES: Final[Mapping[str, str]] = {
    "missing": "Send {field}.",
    "literal_error": "Send {expected}.",
    "enum": "Send {expected}.",
    "greater_than": "Send a number above {gt}.",
    "greater_than_equal": "Send {ge} or more.",
    "less_than": "Send a number below {lt}.",
    "less_than_equal": "Send {le} or less.",
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _PLAIN,
    "decimal_type": _NUMBER,
    "decimal_parsing": _PLAIN,
    "finite_number": "Send a finite number, or leave it out.",
    "decimal_max_places": "Send at most {decimal_places} decimal places.",
    "decimal_max_digits": "Send at most {max_digits} digits.",
    "decimal_whole_digits": "Send at most {whole_digits} digits before the point.",
    "timezone_aware": _INSTANT,
    "datetime_type": _INSTANT,
    "datetime_parsing": _INSTANT,
    "datetime_from_date_parsing": _INSTANT,
    "datetime_object_invalid": _INSTANT,
    "bool_type": "Send true or false.",
    "bool_parsing": "Send true or false.",
    "string_type": 'Send text: "...".',
    "string_too_short": "Send {min_length} or more characters.",
    "string_too_long": "Send at most {max_length} characters.",
    "too_short": "Send at least {min_length} of them.",
    "too_long": "Send at most {max_length} of them.",
    "list_type": _LIST,
    "tuple_type": _LIST,
    "dict_type": _OBJECT,
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "dataclass_type": _OBJECT,
}
"""By pydantic's error types; names in braces come from the error's context."""


def remedy_of(kind: str, field: str, context: Mapping[str, Any]) -> str | None:
    """Return the remedy for a kind of error, None if only the schema can tell.

    Examples
    --------
    >>> remedy_of("greater_than", "deadline_s", {"gt": 0.0})
    'Send a number above 0.'
    >>> remedy_of("literal_error", "objective", {"expected": "'cost' or 'duration'"})
    "Send 'cost' or 'duration'."
    >>> remedy_of("value_error", "work", {}) is None
    True
    """
    formatted = {
        name: f"{value:.12g}" if isinstance(value, float) else value
        for name, value in context.items()
    }
    return REMEDIES[kind].format_map({**formatted, "field": field}) if kind in REMEDIES else None
