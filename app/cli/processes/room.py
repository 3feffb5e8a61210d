"""What an operator is told when the machine has no room for another process."""

from app.cli.failures import RefusedError


def no_room(name: str, error: OSError) -> RefusedError:
    """Return the refusal for a process that cannot be started."""
    return RefusedError(
        f"The {name} cannot be started: {error.strerror}.",
        "Make room for another process: memory, open files, the limit of processes.",
    )
