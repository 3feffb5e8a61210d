"""What a fit depends on besides its runs: the versions of the libraries."""

import platform
from importlib import metadata


def library_versions() -> dict[str, str]:
    """Return the versions that a fit depends on, without importing the libraries."""
    names = ("lightgbm", "numpy", "scikit-learn", "scipy")
    return {"python": platform.python_version()} | {name: metadata.version(name) for name in names}
