"""The table of problem kinds: the code, status and title of each error class."""

from collections.abc import Mapping
from dataclasses import dataclass

from app.domain import access_errors as access
from app.domain import availability_errors as availability
from app.domain import errors as domain
from app.domain.errors import DomainError
from app.domain.regressors import ArtifactRemovedError


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """A code of the contract with its HTTP status and title."""

    code: str
    status: int
    title: str


_DATABASE_UNAVAILABLE = ProblemKind("database_unavailable", 503, "Database unavailable")

KINDS: Mapping[type[DomainError], ProblemKind] = {
    domain.UnknownWorkloadError: ProblemKind("unknown_workload", 404, "Unknown workload"),
    domain.NotFoundError: ProblemKind("not_found", 404, "Not found"),
    domain.ReportWithoutRunsError: ProblemKind("not_found", 404, "Not found"),
    domain.NoRegressorError: ProblemKind("no_regressor", 409, "No published regressor"),
    domain.FitPendingError: ProblemKind("no_regressor", 409, "No published regressor"),
    domain.NotEnoughRunsError: ProblemKind("no_regressor", 409, "Not enough runs"),
    domain.RunConflictError: ProblemKind("run_conflict", 409, "Run stored with other content"),
    domain.UnitChangeError: ProblemKind("unit_change", 409, "Dataset unit is fixed"),
    domain.SchemaDriftError: ProblemKind("schema_drift", 422, "Parameter changed its type"),
    domain.InvalidRowsError: ProblemKind("invalid_rows", 422, "Invalid rows"),
    domain.InvalidRunsError: ProblemKind("invalid_rows", 422, "Invalid rows"),
    domain.InvalidRequestError: ProblemKind("invalid_request", 422, "Invalid request"),
    domain.InvalidNameError: ProblemKind("invalid_request", 422, "Invalid request"),
    ArtifactRemovedError: ProblemKind("invalid_request", 422, "Invalid request"),
    domain.UnknownFieldError: ProblemKind("unknown_field", 422, "Unknown field"),
    domain.UnknownGpuError: ProblemKind("unknown_gpu", 422, "Unknown GPU type"),
    domain.AmbiguousGpuError: ProblemKind("ambiguous_gpu", 422, "Ambiguous GPU type"),
    domain.SpotInfeasibleError: ProblemKind("spot_infeasible", 422, "Spot run cannot finish"),
    domain.InsufficientCapacityError: ProblemKind(
        "insufficient_capacity", 422, "Not enough GPUs for the least that jobs need"
    ),
    domain.IdempotencyKeyReusedError: ProblemKind(
        "idempotency_key_reused", 422, "Idempotency key reused"
    ),
    domain.InProgressError: ProblemKind("in_progress", 409, "Request still in progress"),
    domain.PayloadTooLargeError: ProblemKind("payload_too_large", 413, "Payload too large"),
    domain.TooManyRowsError: ProblemKind("payload_too_large", 413, "Payload too large"),
    domain.TooManyValuesError: ProblemKind("payload_too_large", 413, "Payload too large"),
    domain.UnsupportedMediaTypeError: ProblemKind(
        "unsupported_media_type", 415, "Unsupported media type"
    ),
    access.UnauthenticatedError: ProblemKind("unauthenticated", 401, "Not authenticated"),
    access.UnneededKeyError: ProblemKind("unauthenticated", 401, "Not authenticated"),
    access.InvalidTokenError: ProblemKind("unauthenticated", 401, "Not authenticated"),
    access.IssuerUnavailableError: ProblemKind(
        "issuer_unavailable", 503, "Token issuer unavailable"
    ),
    access.ForbiddenError: ProblemKind("forbidden", 403, "Not allowed"),
    access.RefitPolicyForbiddenError: ProblemKind("forbidden", 403, "Not allowed"),
    access.ForeignPageError: ProblemKind("forbidden", 403, "Not allowed"),
    access.ForeignNameError: ProblemKind("forbidden", 403, "Not allowed"),
    access.ProjectLimitError: ProblemKind("quota_exceeded", 429, "Project limit reached"),
    access.QuotaExceededError: ProblemKind("quota_exceeded", 429, "Rate limit exceeded"),
    domain.RegressorUnavailableError: ProblemKind(
        "regressor_unavailable", 503, "Regressor unavailable"
    ),
    availability.StorageUnavailableError: _DATABASE_UNAVAILABLE,
    availability.StorageUnusableError: _DATABASE_UNAVAILABLE,
    availability.SharedSessionsError: _DATABASE_UNAVAILABLE,
    availability.ForeignEncodingError: _DATABASE_UNAVAILABLE,
    availability.ForeignOrderError: _DATABASE_UNAVAILABLE,
    availability.OldSqliteError: _DATABASE_UNAVAILABLE,
    availability.DeadlineExceededError: ProblemKind(
        "deadline_exceeded", 503, "Not answered in time"
    ),
    availability.StoppingError: ProblemKind("deadline_exceeded", 503, "Not answered in time"),
    availability.OverloadedError: ProblemKind("overloaded", 503, "Too many requests at once"),
    availability.BatchesUnderWayError: ProblemKind("overloaded", 503, "Too many requests at once"),
    availability.MissingExtraError: ProblemKind("not_ready", 503, "Not ready"),
    availability.NotReadyError: ProblemKind("not_ready", 503, "Not ready"),
    availability.SchemaMismatchError: ProblemKind("not_ready", 503, "Not ready"),
    availability.SchemaAheadError: ProblemKind("not_ready", 503, "Not ready"),
    availability.ForeignTablesError: ProblemKind("not_ready", 503, "Not ready"),
}
INTERNAL = ProblemKind("internal", 500, "Internal error")
METHOD_NOT_ALLOWED = ProblemKind("method_not_allowed", 405, "Method not allowed")
MALFORMED_HTTP = ProblemKind("malformed_http", 400, "Not an HTTP request")
HEAD_TIMEOUT = ProblemKind("request_timeout", 408, "Headers took too long")
HEAD_TOO_LARGE = ProblemKind("headers_too_large", 431, "Headers too large")


def all_kinds() -> list[ProblemKind]:
    """Return all problem kinds of the service, each code once."""
    own = (INTERNAL, METHOD_NOT_ALLOWED, MALFORMED_HTTP, HEAD_TIMEOUT, HEAD_TOO_LARGE)
    kinds = {kind.code: kind for kind in (*KINDS.values(), *own)}
    kinds["no_regressor"] = KINDS[domain.NoRegressorError]
    return list(kinds.values())


def kind_of(error: DomainError) -> ProblemKind:
    """Return the kind of the nearest listed class in the error's inheritance order."""
    for ancestor in type(error).__mro__:
        if ancestor in KINDS:
            return KINDS[ancestor]
    return INTERNAL
