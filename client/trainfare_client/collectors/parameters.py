"""Makes what a training calls its parameters what a run can hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from trainfare_client.categories import is_number
from trainfare_client.collectors import finite

if TYPE_CHECKING:
    from trainfare_client.collectors.guarding import Guard

_WORK: Final = frozenset({"dataset_size", "batch_size", "epochs"})
_CONFIGURATION: Final = frozenset(
    {"gpu_type", "instance_type", "provider", "region", "purchase", "nodes", "workers"}
)
_MAX_TEXT: Final = 100
"""The longest text that the service accepts as a parameter."""


@dataclass
class RunParameters:
    """The parameters of a run, made from those of a training, such as a trial's.

    Members of a group are named `group.member`; a list is its text, `[16, 32]`.

    Attributes
    ----------
    own
        What the run holds as parameters.
    work
        Those that are fields of the run's work, for where nothing better is known.

    Examples
    --------
    >>> from trainfare_client.collectors.guarding import Guard
    >>> read = RunParameters.read({"rate": 0.1, "layers": [16, 32], "decay": {"name": "cosine"},
    ...                            "batch_size": 32}, Guard())
    >>> read.own, read.work
    ({'rate': 0.1, 'layers': '[16, 32]', 'decay.name': 'cosine'}, {'batch_size': 32})
    """

    own: dict[str, Any] = field(default_factory=dict)
    work: dict[str, float] = field(default_factory=dict)
    _faults: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, parameters: Mapping[str, Any], guard: Guard) -> RunParameters:
        """Return what a run can hold of the parameters of a training; complain about the rest."""
        read = cls()
        for name, value in parameters.items():
            read._add(str(name), value)
        if read._faults:
            guard.complain(f"parameters: {'; '.join(read._faults)}")
        read.own, read.work = finite.kept(read.own, guard), finite.kept(read.work, guard)
        return read

    def _add(self, name: str, value: Any) -> None:
        value = as_python_number(value)
        if isinstance(value, Mapping):
            for member, inner in value.items():
                self._add(f"{name}.{member}", inner)
        elif value is None:
            return
        elif name in _WORK and is_number(value):
            self.work[name] = value
        elif name in _WORK | _CONFIGURATION:
            self._faults.append(
                f"{name} is left out: it is a field of the run. Pass {name}=, or name the parameter"
                " differently"
            )
        else:
            value = str(list(value)) if isinstance(value, (list, tuple)) else value
            if isinstance(value, str) and len(value) > _MAX_TEXT:
                self._faults.append(f"{name} is left out: it is longer than {_MAX_TEXT} characters")
            else:
                self.own[name] = value


def as_python_number(value: Any) -> Any:
    """Return a single number or truth value of numpy or torch as Python's, all else as it is."""
    return value.item() if getattr(value, "ndim", None) == 0 else value
