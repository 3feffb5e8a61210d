"""How a service tells what it has changed to the memory of its process."""

from collections.abc import Callable

from app.domain.identifiers import ProjectId, Slug

Expire = Callable[[ProjectId, Slug, int | None], None]
"""Told a workload whose answers may change, and the version known to answer, None if unknown."""


def expire_nothing(_project_id: ProjectId, _slug: Slug, _version: int | None) -> None:
    """Do nothing: a process that answers no forecast remembers no regressor."""
