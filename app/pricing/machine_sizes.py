"""Sizes of machines, as encoded in the names of clouds' instance types."""

import re
from typing import Final

_AMAZON: Final = re.compile(r"(?:[a-z]+\.)?([a-z]+)\d[a-z0-9-]*\.(?:(medium|large)|(\d*)xlarge)")
_GOOGLE: Final = re.compile(
    r"[a-z]\d[a-z]?-(?:standard|high|mega|ultra|hyper)[a-z]*-(\d+)(?:-lssd)?"
)
_GOOGLE_CUSTOM: Final = re.compile(r"(?:[a-z]\d[a-z]?-)?custom-(\d+)-\d+(?:-ext)?")
_AZURE: Final = re.compile(r"(?:standard|basic)_([a-z]+?)(\d+)(?:-(\d+))?[a-z]*(?:_([a-z0-9_]*))?")

_BURSTABLE: Final = "t"
_MEDIUM, _LARGE, _XLARGE = 1, 2, 4
_NUMBERED_D: Final = {1: 1, 2: 2, 3: 4, 4: 8, 5: 16, 11: 2, 12: 4, 13: 8, 14: 16, 15: 20}
"""Processors of Azure's first D machines, whose numbers are not sizes."""

_NUMBERED_VERSIONS: Final = ("", "v2", "v2_promo")
_NUMBERED_FAMILIES: Final = frozenset({"a", "g", "gs"})
"""Other early families whose numbers are not sizes."""


def vcpus_of(instance_type: str) -> int | None:
    """Return the number of virtual processors in the name of an instance type, None for others.

    Names of Amazon, Alibaba (which follows the same rule), Google and Azure are understood; those
    of bare metal contain no size.

    Examples
    --------
    >>> [vcpus_of(each) for each in ("c5.2xlarge", "n2-highmem-16", "Standard_D8s_v5", "laptop")]
    [8, 16, 8, None]
    """
    name = instance_type.casefold()
    if match := _AMAZON.fullmatch(name):
        family, word, multiple = match.groups()
        if word == "medium":
            return _LARGE if family == _BURSTABLE else _MEDIUM
        return _LARGE if word else _XLARGE * int(multiple or 1) or None
    if match := _GOOGLE.fullmatch(name) or _GOOGLE_CUSTOM.fullmatch(name):
        return int(match[1]) or None
    return _azure_vcpus(name)


def _azure_vcpus(name: str) -> int | None:
    match = _AZURE.fullmatch(name)
    if match is None:
        return None
    family, number, active, version = match.groups(default="")
    if version in _NUMBERED_VERSIONS:
        if family in ("d", "ds"):
            return _NUMBERED_D.get(int(number))
        if family in _NUMBERED_FAMILIES and version != "v2":
            return None
    return int(active or number) or None
