"""What can go wrong between a caller and the service, each with a remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SHOWN_FAULTS: Final = 5


class TrainfareError(Exception):
    """Anything that this package or the service refuses.

    Attributes
    ----------
    remedy
        What to do about it; empty if there is nothing sensible to say.
    """

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(f"{message} {remedy}".strip())
        self.message = message
        self.remedy = remedy

    # No @override: typing_extensions is not a dependency.
    def __reduce__(self) -> tuple[Any, ...]:  # type: ignore[explicit-override]
        # By default, unpickling calls the class with the message: most of ours take other
        # arguments.
        return _unpickled, (type(self), self.args), vars(self)


def _unpickled(kind: type[TrainfareError], args: tuple[Any, ...]) -> TrainfareError:
    """Return an exception as it was pickled, without its attributes, which are set next."""
    return kind.__new__(kind, *args)


class SettingsError(TrainfareError):
    """A setting is invalid."""


class BadNameError(TrainfareError):
    """A name is empty or would lead to another path, so nothing of the service can have it."""


class BadNumberError(TrainfareError, ValueError):
    """A number is infinite or NaN, which the service does not accept."""


class UploadFileError(TrainfareError):
    """A file's name does not show what it holds."""


class SpoolError(TrainfareError):
    """The spool file cannot be written or read."""


class UndeliveredError(TrainfareError):
    """The service did not accept a collector's run, which waits in the spool."""

    def __init__(self, error: Exception, spool: object) -> None:
        super().__init__(
            f"{type(error).__name__}: {error}",
            f"The run waits in {spool} for `trainfare-client flush`.",
        )


class LostRunError(TrainfareError):
    """A collector's run cannot be sent or spooled: its facts make no document."""

    def __init__(self, workload: str, error: Exception) -> None:
        super().__init__(
            f"The run of {workload} is lost: {type(error).__name__}: {error}.",
            "Give numbers and texts, and labels and parameters by name.",
        )


class FitFailedError(TrainfareError):
    """A fit ended without a regressor; `fit` is its last document."""

    def __init__(self, fit: Mapping[str, Any]) -> None:
        problem = fit.get("problem") or {}
        super().__init__(
            f"Fit {fit.get('fit_id')} {fit.get('state')}: {problem.get('detail', 'no reason')}",
            "Upload more runs of the workload, or ask for the fit again.",
        )
        self.fit = fit


class FitTimeoutError(TrainfareError):
    """A fit is still active after the time that the caller allowed."""

    def __init__(self, fit: Mapping[str, Any], waited_s: float) -> None:
        step = f" ({fit['step']})" if fit.get("step") else ""
        super().__init__(
            f"Fit {fit.get('fit_id')} is still {fit.get('state')} after {waited_s:g} s{step}.",
            "Wait longer; the fit goes on.",
        )
        self.fit = fit


class UnreachableError(TrainfareError):
    """No answer came, or one that is not Trainfare's."""


class ProblemError(TrainfareError):
    """The service answered with a problem (RFC 9457).

    Attributes
    ----------
    status, code, title, detail
        As stated by the service.
    errors
        The faults of single fields or rows, each with `message` and `remedy`.
    document
        The whole problem.
    retry_after_s
        How long the service asked to wait before the next attempt, None if it did not.
    """

    def __init__(
        self, status: int, document: Mapping[str, Any], *, retry_after_s: float | None = None
    ) -> None:
        self.status = status
        self.code = str(document.get("code", ""))
        self.title = str(document.get("title", ""))
        self.detail = str(document.get("detail", ""))
        self.errors: Sequence[Mapping[str, Any]] = tuple(document.get("errors") or ())
        self.document = document
        self.retry_after_s = retry_after_s
        message = f"{self.title} ({status} {self.code}): {self.detail}"
        super().__init__(message, _remedy(document, self.errors))


class InvalidRequestError(ProblemError):
    """The request is malformed (422 and 415): correct it before another attempt."""


class UnknownFieldError(InvalidRequestError):
    """The request has a field that does not exist; the remedy names the nearest."""


class InvalidRowsError(InvalidRequestError):
    """Rows of an upload are bad, and nothing was stored; `errors` names them."""


class SchemaDriftError(InvalidRequestError):
    """A parameter came with another type than before."""


class UnknownGpuError(InvalidRequestError):
    """A GPU's name is unknown; the remedy names the nearest."""


class AmbiguousGpuError(InvalidRequestError):
    """A GPU's name stands for several; the remedy names them."""


class SpotInfeasibleError(InvalidRequestError):
    """Interruptions come faster than the work can progress."""


class IdempotencyKeyReusedError(InvalidRequestError):
    """An idempotency key was used before with another request."""


class PayloadTooLargeError(InvalidRequestError):
    """The body is larger than the service accepts; upload in parts."""


class AuthenticationError(ProblemError):
    """The key is missing or unknown (401)."""


class PermissionDeniedError(ProblemError):
    """The key's scopes do not allow this (403)."""


class NotFoundError(ProblemError):
    """There is no such thing in the key's project (404)."""


class UnknownWorkloadError(NotFoundError):
    """There is no such workload in the key's project."""


class ConflictError(ProblemError):
    """The current state does not allow this (409)."""


class NoRegressorError(ConflictError):
    """The workload has no published regressor yet: request a fit."""


class RunConflictError(ConflictError):
    """A run with the same `external_id` is stored with other content."""


class UnitChangeError(ConflictError):
    """A workload's unit cannot change once runs exist."""


class InProgressError(ConflictError):
    """The same request is being worked on."""


class QuotaExceededError(ProblemError):
    """Too many requests (429); `retry_after_s` says when to try again."""


class ServiceFailedError(ProblemError):
    """The service itself failed (5xx)."""


_BY_CODE: Final[dict[str, type[ProblemError]]] = {
    "unknown_field": UnknownFieldError,
    "invalid_rows": InvalidRowsError,
    "schema_drift": SchemaDriftError,
    "unknown_gpu": UnknownGpuError,
    "ambiguous_gpu": AmbiguousGpuError,
    "spot_infeasible": SpotInfeasibleError,
    "idempotency_key_reused": IdempotencyKeyReusedError,
    "payload_too_large": PayloadTooLargeError,
    "unknown_workload": UnknownWorkloadError,
    "no_regressor": NoRegressorError,
    "run_conflict": RunConflictError,
    "unit_change": UnitChangeError,
    "in_progress": InProgressError,
    "quota_exceeded": QuotaExceededError,
}
_BY_STATUS: Final[dict[int, type[ProblemError]]] = {
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    413: PayloadTooLargeError,
    415: InvalidRequestError,
    422: InvalidRequestError,
    429: QuotaExceededError,
}
_SERVICE_FAILED: Final = 500


def problem_error(
    status: int, document: Mapping[str, Any], *, retry_after_s: float | None = None
) -> ProblemError:
    """Return the exception for a problem: by its code, else by its status."""
    fallback = ServiceFailedError if status >= _SERVICE_FAILED else ProblemError
    by_status = _BY_STATUS.get(status, fallback)
    problem_class = _BY_CODE.get(str(document.get("code", "")), by_status)
    return problem_class(status, document, retry_after_s=retry_after_s)


def _remedy(document: Mapping[str, Any], errors: Sequence[Mapping[str, Any]]) -> str:
    parts = [str(document.get("remedy") or "")]
    for fault in errors[:_SHOWN_FAULTS]:
        row = f"row {fault['row']}" if fault.get("row") is not None else ""
        place = ", ".join(part for part in (row, str(fault.get("field") or "")) if part)
        sentences = (_sentence(str(fault.get(part) or "")) for part in ("message", "remedy"))
        explanation = " ".join(part for part in sentences if part)
        parts.append(f"{place}: {explanation}" if place else explanation)
    if len(errors) > _SHOWN_FAULTS:
        parts.append(f"... and {len(errors) - _SHOWN_FAULTS} more in `errors`.")
    return " ".join(dict.fromkeys(part for part in parts if part))


def _sentence(text: str) -> str:
    """Return a text with its full stop."""
    return text if text.endswith((".", "!", "?")) or not text else f"{text}."
