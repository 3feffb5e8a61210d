"""Reads the flat fields of a what-if query: upload columns, with comma lists as a grid."""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, Final

from app.domain.columns import Repeated
from app.domain.comma_lists import split_list
from app.domain.errors import Fault, InvalidRequestError, UnknownFieldError
from app.domain.flat_fields import COLUMN_PARAMETERS, CONFIGURATION, PARAMETER, WORK
from app.domain.spelling import nearest_field

MAX_POINTS: Final = 10_000
_SPOT: Final = ("interruptions_per_hour", "checkpoint_interval_s", "checkpoint_s", "restart_s")
_GRID_PATHS: Final[Mapping[str, tuple[str, ...]]] = {
    **{name: ("configuration", name) for name in CONFIGURATION},
    **{name: ("work", name) for name in WORK},
    **{
        column: ("parameters", name.removeprefix(PARAMETER))
        for column, name in COLUMN_PARAMETERS.items()
    },
}
_SINGLE_PATHS: Final[Mapping[str, tuple[str, ...]]] = {
    **{
        name: (name,)
        for name in (
            "confidence",
            "deadline_s",
            "budget",
            "regressor_version",
            "time_limit_quantile",
            "explain",
        )
    },
    **{name: ("pricing", name) for name in ("price_per_hour", "currency", "as_of")},
    **{name: ("pricing", "spot", name) for name in _SPOT},
}
FLAT_FIELDS: Final = (*_GRID_PATHS, *_SINGLE_PATHS)
_INTEGERS: Final = frozenset({"nodes", "workers", "regressor_version"})
_FLAGS: Final = frozenset({"explain"})
_TEXTS: Final = frozenset(
    {"gpu_type", "instance_type", "provider", "region", "purchase", "framework", "currency"}
)

_LIST_DESCRIPTION: Final = "a value or a comma list; a value with commas stands in double quotes"
_PARAMETERS: Final = {
    "name": "param",
    "in": "query",
    "required": False,
    "description": "the workload's parameters, each under its own name `param.NAME`",
    "style": "form",
    "explode": True,
    "schema": {
        "type": "object",
        "propertyNames": {"pattern": r"^param\..{1,100}$"},
        "additionalProperties": {"type": "string", "maxLength": 1000},
    },
    "example": {"param.width": "24", "param.precision": "fp16"},
}


@dataclass(frozen=True, slots=True)
class Grid:
    """The forecast requests of a query: all combinations; the last field varies fastest.

    Parameters
    ----------
    axes
        The values of each field, at least one.
    workload
        The workload asked about.
    """

    axes: Mapping[str, Sequence[str]]
    workload: str

    def __len__(self) -> int:
        return prod(map(len, self.axes.values()))

    def points(self) -> Iterator[dict[str, Any]]:
        """Yield the requests."""
        for point in product(*self.axes.values()):
            yield _document(zip(self.axes, point, strict=True), self.workload)

    def varied(self) -> dict[str, dict[str, Repeated[str]]]:
        """Return the values of the fields that have several, for each request, by group and name.

        Examples
        --------
        >>> grid = Grid({"nodes": ["1"], "workers": ["2", "4"], "epochs": ["1", "9"]}, "a")
        >>> list(grid.varied()["work"]["epochs"])
        ['1', '9', '1', '9']
        """
        members: dict[str, dict[str, Repeated[str]]] = {"": {}}
        outer, inner = 1, len(self)
        for field, values in self.axes.items():
            inner //= len(values)
            if len(values) > 1:
                group, name = _path_of(field) or ("", field)
                places = array("q")
                for place in range(len(values)):
                    places.extend(array("q", [place]) * inner)
                members.setdefault(group, {})[name] = Repeated(values, places * outer)
            outer *= len(values)
        return members


def read_grid(items: Iterable[tuple[str, str]], workload: str) -> Grid:
    """Return the forecast requests of a query.

    Parameters
    ----------
    items
        Names and values from the query; an empty value counts as absent.
    workload
        The workload in the path.

    Raises
    ------
    UnknownFieldError
        If a name is not a known field.
    InvalidRequestError
        If the grid has too many points, or a list has none.
    """
    fields = merge(items)
    unknown = [name for name in fields if _path_of(name) is None]
    if unknown:
        raise UnknownFieldError([_unknown(name) for name in unknown])
    axes = {name: _values(name, text) for name, text in fields.items()}
    empty = [name for name, values in axes.items() if not values]
    if empty:
        raise InvalidRequestError(
            "A list has no value.",
            [Fault("It names no value.", "Give one, or leave it out.", field=n) for n in empty],
        )
    grid = Grid(axes, workload)
    if len(grid) > MAX_POINTS:
        raise InvalidRequestError(
            f"The grid has more than {MAX_POINTS} points.",
            [Fault("The comma lists multiply.", "Shorten them, or ask in several requests.")],
        )
    return grid


def read_point(items: Iterable[tuple[str, str]], workload: str) -> dict[str, Any]:
    """Return the one forecast request of a query without lists.

    Raises
    ------
    UnknownFieldError
        If a name is not a known field.
    InvalidRequestError
        If a field has several values.
    """
    fields = list(items)
    grid = read_grid(fields, workload)
    if len(grid) > 1:
        several = [name for name, values in grid.axes.items() if len(values) > 1]
        faults = [Fault("It has several values.", "Give one.", field=name) for name in several]
        raise InvalidRequestError("Each field takes one value here.", faults)
    return next(grid.points())


def merge(items: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the fields that have a value; values of a repeated name are joined into one list.

    A parameter with a column of its own has one name here, like any other field.
    """
    fields: dict[str, str] = {}
    for given, text in items:
        name = COLUMN_PARAMETERS.get(given, given)
        if text.strip():
            fields[name] = f"{fields[name]},{text}" if name in fields else text
    return fields


def _path_of(name: str) -> tuple[str, ...] | None:
    if name.startswith(PARAMETER) and len(name) > len(PARAMETER):
        return ("parameters", name.removeprefix(PARAMETER))
    return _GRID_PATHS.get(name) or _SINGLE_PATHS.get(name)


def _values(name: str, text: str) -> list[str]:
    if name in _SINGLE_PATHS:
        return [text.strip()]
    return split_list(text)


def _document(point: Iterable[tuple[str, str]], workload: str) -> dict[str, Any]:
    document: dict[str, Any] = {"workload": workload, "record": False}
    for name, text in point:
        *path, last = _path_of(name) or ()
        target = document
        for step in path:
            target = target.setdefault(step, {})
        target[last] = text
    return document


def _unknown(name: str) -> Fault:
    # Remedies name members of objects, such as pricing.currency.
    *_, member = name.split(".")
    nearest = nearest_field(name, FLAT_FIELDS) or nearest_field(member, FLAT_FIELDS)
    hint = f"Did you mean {nearest!r}? " if nearest else ""
    shown = name[:100].encode("utf-8", "backslashreplace").decode()
    parameter = "NAME" if nearest or "." in name or name == "param" else shown
    return Fault(
        f"There is no field {shown!r}.",
        f"{hint}A parameter of the workload is {PARAMETER}{parameter}.",
        field=shown,
    )


def _schema(name: str, *, has_lists: bool) -> dict[str, Any]:
    if name in _TEXTS or name == "as_of":
        return {"type": "string", "maxLength": 1000}
    if name in _FLAGS:
        return {"type": "string", "enum": ["true", "false"]}
    number = r"[1-9][0-9]{0,6}" if name in _INTEGERS else r"[0-9]{1,19}(\.[0-9]{1,12})?"
    return {
        "type": "string",
        "pattern": rf"^{number}(,{number})*$" if has_lists else rf"^{number}$",
    }


def query_parameters(*, has_lists: bool) -> list[dict[str, Any]]:
    """Return the description of the fields for the OpenAPI document."""
    described = [
        {
            "name": name,
            "in": "query",
            "required": False,
            "description": _LIST_DESCRIPTION if has_lists and name in _GRID_PATHS else "one value",
            "schema": _schema(name, has_lists=has_lists and name in _GRID_PATHS),
        }
        for name in FLAT_FIELDS
    ]
    return [*described, _PARAMETERS]
