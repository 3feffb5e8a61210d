"""Forms as values and arrays of an artefact, and back, with checks that all parts fit."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

import numpy as np

from models.estimators.forms import (
    Activation,
    Affine,
    Beside,
    Chain,
    Columns,
    Form,
    Kernel,
    Neighbours,
    Powers,
    Scaled,
    Trees,
)
from models.regressor import State, StateValue

MAX_NESTING = 6
MAX_FORMS = 2_000

_KINDS: dict[str, type[Form]] = {
    kind.__name__.lower(): kind
    for kind in (
        Activation, Affine, Beside, Chain, Columns, Kernel, Neighbours, Powers, Scaled, Trees,
    )
}  # fmt: skip


def write_form(form: Form) -> State:
    """Return a form as data.

    Examples
    --------
    >>> state = write_form(Affine(np.array([[2.0]]), np.array([1.0])))
    >>> dict(state.values), sorted(state.arrays)
    ({'form': 'affine'}, ['form.matrix', 'form.offset'])
    """
    values: dict[str, StateValue] = {}
    arrays = {}
    for path, part in _walk("form", form):
        values[path] = type(part).__name__.lower()
        for name in _field_types(type(part)):
            value = getattr(part, name)
            if isinstance(value, np.ndarray):
                arrays[f"{path}.{name}"] = value
            else:
                values[f"{path}.{name}"] = len(value) if name == "parts" else value
    return State(values, arrays)


def _field_types(kind: type[Form]) -> dict[str, object]:
    """Return the types of a form's fields, by name."""
    assert is_dataclass(kind)
    return {field.name: field.type for field in fields(kind)}


def _walk(path: str, form: Form) -> Iterator[tuple[str, Form]]:
    yield path, form
    for index, part in enumerate(getattr(form, "parts", ())):
        yield from _walk(f"{path}.{index}", part)


def read_form(state: State, n_inputs: int) -> Form:
    """Return the form of `write_form`, with one output for `n_inputs` inputs.

    Raises
    ------
    ValueError
        If a kind is unknown, forms are too many or nested too deep, or numbers are missing, not
        finite or inconsistent.
    """
    kinds = [
        name for name, value in state.values.items() if isinstance(value, str) and value in _KINDS
    ]
    if len(kinds) > MAX_FORMS:
        raise ValueError("there are too many forms")
    form = _read(state, "form", 0)
    if form.n_outputs(n_inputs) != 1:
        raise ValueError("a form has not one output")
    return form


def _read(state: State, path: str, nesting: int) -> Form:
    name = state.values.get(path)
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None or nesting > MAX_NESTING:
        raise ValueError(f"the form {str(name)[:40]!r} is not known or nested too deep")
    arguments: dict[str, object] = {}
    for field, expected in _field_types(kind).items():
        key = f"{path}.{field}"
        if field == "parts":
            count = state.values[key]
            if type(count) is not int or not 0 < count <= MAX_FORMS:
                raise ValueError("a form has no parts or too many")
            arguments["parts"] = [_read(state, f"{path}.{i}", nesting + 1) for i in range(count)]
        elif key in state.arrays:
            arguments[field] = state.arrays[key]
        else:
            value = state.values[key]
            if type(value) is not expected:
                raise ValueError(f"{field} of a form has another type")
            arguments[field] = value
    return kind(**arguments)
