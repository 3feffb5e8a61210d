"""The service lets itself hold as many connections as it may."""

import resource

import pytest

from app.cli.processes.serving import allow_connections

_UNLIMITED = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("allowed", "chosen"),
    [
        ((1024, 524_288), [(65_536, 524_288)]),
        ((1024, 4096), [(4096, 4096)]),
        ((1024, _UNLIMITED), [(65_536, _UNLIMITED)]),
        ((4096, 4096), []),
        ((524_288, 524_288), []),
        ((_UNLIMITED, _UNLIMITED), []),
    ],
)
def test_soft_limit_is_raised_and_never_lowered(
    allowed: tuple[int, int], chosen: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: allowed)
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: reported.append(limits))

    allow_connections()

    assert reported == chosen
