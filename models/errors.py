"""What the library refuses, as subclasses of ValueError."""


class NotEnoughRunsError(ValueError):
    """There are fewer runs than the simplest regressor needs.

    Examples
    --------
    >>> str(NotEnoughRunsError(found=0, needed=1))
    '0 runs were found; 1 is needed.'
    """

    def __init__(self, *, found: int, needed: int) -> None:
        noun = "run was" if found == 1 else "runs were"
        verb = "is" if needed == 1 else "are"
        super().__init__(f"{found} {noun} found; {needed} {verb} needed.")
        self.found, self.needed = found, needed


class UnknownRegressorError(ValueError):
    """A regressor was asked for by a name that the library does not have."""

    def __init__(self, names: list[str], known: tuple[str, ...]) -> None:
        super().__init__(f"Unknown regressors {names}; known are {', '.join(known)}.")
        self.names, self.known = names, known


class NothingFittedError(ValueError):
    """Every candidate failed; the message gives the reason for each."""

    def __init__(self, reasons: dict[str, str]) -> None:
        details = "; ".join(f"{name}: {reason}" for name, reason in sorted(reasons.items()))
        super().__init__(f"No regressor could be fitted ({details}).")
        self.reasons = reasons


class ArtifactError(ValueError):
    """Bytes are not an artefact of this format, or were truncated or altered."""


class DamagedForecastError(ArtifactError):
    """A forecast is not finite: a bug, or an artefact with numbers that no fit produces."""
