"""Lets one thing happen in the middle of another."""

from collections.abc import Callable
from typing import Any

import pytest


def after_first(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, meanwhile: Callable[[], object]
) -> None:
    """Let something happen between the first call of a method and what follows it."""
    original = getattr(owner, name)

    def call(*arguments: Any, **named: Any) -> Any:
        answer = original(*arguments, **named)
        monkeypatch.setattr(owner, name, original)
        meanwhile()
        return answer

    monkeypatch.setattr(owner, name, call)
