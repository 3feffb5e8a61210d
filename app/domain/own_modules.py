"""How a process that runs a module of this program is started, wherever this one was started."""

import os
import sys


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the command line that runs a module of this program in a process of its own.

    Examples
    --------
    >>> module_command("app.cli", "serve")[1:]
    ['-P', '-m', 'app.cli', 'serve']
    """
    # By default Python looks for modules in the current folder first: many a project has packages
    # named `app`, `models` or `migrations`, too.
    return [sys.executable, "-P", "-m", module, *arguments]


def module_environment() -> dict[str, str]:
    """Return the environment of such a process, which finds the modules that this one finds."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
