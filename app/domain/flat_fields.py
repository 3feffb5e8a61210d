"""The flat names of a scenario's members in uploads, queries, tables and sentences."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final

from app.domain.configurations import Configuration, Scenario, Work
from app.domain.wording import say_number

CONFIGURATION: Final = tuple(field.name for field in fields(Configuration))
WORK: Final = tuple(field.name for field in fields(Work))
PARAMETER: Final = "param."
"""Prefix of the name of a further parameter."""

COLUMN_PARAMETERS: Final = {"framework": PARAMETER + "framework"}
"""Parameters that have a column of their own in uploads and what-ifs, without the prefix."""

_OF_DURATION: Final = ("gpu_type", "instance_type", "nodes", "workers")
"""Where capacity is bought and how it is paid for does not change a duration."""


SameGpu = Callable[[str, str], bool]
"""Whether two names may be of one GPU."""


def contradictions(asked: Scenario, ran: Scenario, is_same_gpu: SameGpu) -> tuple[str, ...]:
    """Return the flat names of what both scenarios give, but differently.

    Examples
    --------
    >>> asked = Scenario(Configuration("T4", workers=8), Work(epochs=2), {"layers": 2})
    >>> ran = Scenario(Configuration("T4", nodes=1, workers=4), Work(epochs=2))
    >>> contradictions(asked, ran, str.__eq__)
    ('workers',)
    """
    pairs = {
        **{
            name: (getattr(asked.configuration, name), getattr(ran.configuration, name))
            for name in _OF_DURATION
        },
        **{name: (getattr(asked.work, name), getattr(ran.work, name)) for name in WORK},
        **{
            PARAMETER + name: (value, ran.parameters.get(name))
            for name, value in asked.parameters.items()
        },
    }
    gpus = pairs.pop("gpu_type")
    is_other_gpu = None not in gpus and not is_same_gpu(*gpus)
    return (
        *(("gpu_type",) if is_other_gpu else ()),
        *(name for name, values in pairs.items() if None not in values and len({*values}) > 1),
    )


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
