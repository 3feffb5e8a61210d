"""Projects by the names that operators give them."""

from app.domain.access import Project
from app.domain.errors import NotFoundError
from app.storage.stores import Stores


def project_named(stores: Stores, name: str) -> Project:
    """Return the project of a name.

    Raises
    ------
    NotFoundError
        If there is no such project.
    """
    project = stores.access.find_project(name)
    if project is None:
        raise NotFoundError("project", name)
    return project
