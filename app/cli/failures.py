"""How a command fails: exit code, message and remedy."""

from enum import IntEnum


class ExitCode(IntEnum):
    """The documented exit codes of every command."""

    OK = 0
    REFUSED = 1
    USAGE = 2
    UNREACHABLE = 3
    FIT_FAILED = 4
    INTERRUPTED = 130


class CommandError(Exception):
    """A command cannot do what was requested; `remedy` says what would help."""

    exit_code = ExitCode.REFUSED

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


class RefusedError(CommandError):
    """The service or its state does not allow it; a problem's `code` and `detail` say why."""

    def __init__(self, message: str, remedy: str = "", *, code: str = "", detail: str = "") -> None:
        super().__init__(message, remedy)
        self.code, self.detail = code, detail


class UnreachableError(CommandError):
    """The service or the database does not answer."""

    exit_code = ExitCode.UNREACHABLE


class UsageError(CommandError):
    """The command line is wrong."""

    exit_code = ExitCode.USAGE


class FitFailedError(CommandError):
    """A fit ended without a regressor."""

    exit_code = ExitCode.FIT_FAILED
