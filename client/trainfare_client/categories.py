"""Numbers of parameters that are categories: sent as text, like the cells of a CSV file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainfare_client.documents import UploadAnswer
    from trainfare_client.errors import ProblemError

R = TypeVar("R", bound=Mapping[str, Any])

_PREFIX: Final = "param."
_CODE: Final = "numbers_sent_as_text"


def with_numbers_as_text(runs: Sequence[R], refusal: ProblemError) -> tuple[list[R], list[str]]:
    """Return the runs with the numbers as text that were refused as values of categories.

    The second list names the parameters; it is empty if nothing was refused for that.
    """
    changed, names = list(runs), []
    for fault in refusal.errors:
        index, field = int(fault["row"]) - 1, str(fault.get("field"))
        text = number_as_text(changed[index], field)
        if text:
            changed[index] = {**changed[index], **text}  # type: ignore[assignment] # the same type
            names.append(field)
    return changed, list(dict.fromkeys(names))


def number_as_text(run: Mapping[str, Any], field: str) -> dict[str, Any]:
    """Return the member of a run, flat or not, that holds a parameter's number, with its text.

    It is empty if the parameter is not a number.
    """
    name, parameters = field.removeprefix(_PREFIX), run.get("parameters") or {}
    if is_number(run.get(field)):
        return {field: str(run[field])}
    if is_number(parameters.get(name)):
        return {"parameters": {**parameters, name: str(parameters[name])}}
    return {}


def with_warning(answer: UploadAnswer, names: Sequence[str]) -> UploadAnswer:
    """Return the answer to runs with numbers as text, with a warning that names the parameters."""
    message = f"Numbers of categories were sent as text: {', '.join(names)}."
    remedy = "Send text if the kind of the value matters."
    warning = {"code": _CODE, "message": message, "remedy": remedy}
    return {**answer, "warnings": [*answer["warnings"], warning]}


def numbers_sent_as_text(answer: UploadAnswer) -> list[str]:
    """Return a sentence if numbers were sent as text."""
    warnings = answer.get("warnings") or []
    return [warning["message"] for warning in warnings if warning["code"] == _CODE]


def is_number(value: Any) -> bool:
    """Return whether a value is a number, which a truth value is not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
