"""The flat names of a scenario's members in uploads, queries, tables and sentences."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from app.domain.configurations import Configuration, Work
from app.domain.wording import say_number

CONFIGURATION: Final = tuple(field.name for field in fields(Configuration))
WORK: Final = tuple(field.name for field in fields(Work))
PARAMETER: Final = "param."
"""Prefix of the name of a further parameter."""


def say_members(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the members of a document's scenario by their flat names, formatted for people.

    Parameters
    ----------
    document
        A forecast or a planned run, with `configuration`, `work` and `parameters`.

    Examples
    --------
    >>> say_members({"configuration": {"workers": 8}, "parameters": {"precision": "fp16"}})
    {'workers': '8', 'param.precision': 'fp16'}
    """
    configuration, work = document["configuration"], document.get("work") or {}
    members = {
        **{name: configuration.get(name) for name in CONFIGURATION},
        **{name: work.get(name) for name in WORK},
        **{PARAMETER + name: value for name, value in (document.get("parameters") or {}).items()},
    }
    return {
        name: say_number(value) if isinstance(value, int | float) else str(value)
        for name, value in members.items()
        if value is not None
    }
