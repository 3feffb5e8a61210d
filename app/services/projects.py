"""Looks up projects by the names that operators give them."""

from app.domain.access import Project
from app.domain.errors import NotFoundError
from app.domain.identifiers import ProjectId
from app.storage.stores import Stores


def require_project(stores: Stores, name: str) -> Project:
    """Return the project with a name.

    Raises
    ------
    NotFoundError
        If there is no such project.
    """
    project = stores.access.find_project(name)
    if project is None:
        raise NotFoundError("project", name)
    return project


def project_id_of(stores: Stores, name: str | None) -> ProjectId | None:
    """Return the identifier of the project with a name, None for all projects.

    Raises
    ------
    NotFoundError
        If there is no such project.
    """
    return None if name is None else require_project(stores, name).project_id
