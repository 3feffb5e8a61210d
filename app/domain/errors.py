"""One class per refusal of the service: typed data in, message made inside, no HTTP."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from app.domain.identifiers import FitId, Slug
from app.domain.wording import say_count, say_factor, say_number

MAX_NAMED_FAULTS = 1000
"""How many faults a refusal lists; of further ones it gives only the number."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a request: where it is, what it is and how to correct it.

    `row` counts the data rows of an upload from 1 (the header of a CSV file is not counted);
    `pointer` is a JSON pointer into the body of any other request.
    """

    message: str
    remedy: str
    field: str | None = None
    value: object = None
    row: int | None = None
    pointer: str | None = None


class DomainError(Exception):
    """A refusal the caller can act on; `remedy` says how."""

    remedy: str = ""

    def __init__(self, message: str, *, faults: Sequence[Fault] = ()) -> None:
        super().__init__(message)
        self.faults = tuple(faults[:MAX_NAMED_FAULTS])

    def again(self) -> Self:
        """Return an equal refusal without a traceback, to be raised again."""
        another = type(self).__new__(type(self), *self.args)
        another.__dict__.update(self.__dict__)
        return another


class NotFoundError(DomainError):
    """A resource does not exist in the caller's project."""

    remedy = "Check the identifier; lists show what exists in the project of your key."

    def __init__(self, kind: str, identifier: str) -> None:
        super().__init__(f"There is no {kind} {identifier!r}.")
        self.kind = kind


class ReportWithoutRunsError(NotFoundError):
    """All runs of a CI report were removed, so nothing of it can be used in fits."""

    remedy = "Report the runs again (POST /v1/ci/reports)."

    def __init__(self, report_id: str) -> None:
        super().__init__("run of CI report", report_id)


class UnknownWorkloadError(NotFoundError):
    """A workload was never declared and no run of it was uploaded."""

    remedy = (
        "Check its name, or upload runs of it (POST /v1/runs), or declare it"
        " (PUT /v1/workloads/{workload})."
    )

    def __init__(self, slug: str, nearest: str | None) -> None:
        super().__init__("workload", slug)
        if nearest is not None:
            self.args = (f"{self} The nearest name is {nearest!r}.",)


class NoRegressorError(DomainError):
    """A workload has no published regressor that could forecast."""

    remedy = "Upload succeeded runs, then POST /v1/workloads/{workload}/fits."

    def __init__(self, slug: Slug, *, found: int, needed: int) -> None:
        ask = f"POST /v1/workloads/{slug}/fits"
        super().__init__(
            f"Workload {slug!r} has no published regressor: {say_count(found, 'usable run')} found,"
            f" {needed} needed."
        )
        enough = found >= needed
        self.remedy = f"Ask for a fit: {ask}." if enough else f"Upload succeeded runs, then {ask}."
        self.slug, self.found, self.needed = slug, found, needed


class FitPendingError(NoRegressorError):
    """A workload has no published regressor yet, but an active fit may publish one."""

    remedy = (
        "Ask again when the fit has ended. If it stays queued, no fitter may be alive: see /readyz."
    )

    def __init__(self, slug: Slug, *, found: int, needed: int, fit_id: FitId, state: str) -> None:
        DomainError.__init__(
            self,
            f"Workload {slug!r} has no published regressor yet; a fit is {state}:"
            f" GET /v1/fits/{fit_id}.",
        )
        self.slug, self.found, self.needed = slug, found, needed
        self.fit_id, self.state = fit_id, state


class NotEnoughRunsError(DomainError):
    """A fit was requested for a workload without any usable run."""

    remedy = "Upload succeeded runs of the workload that are not excluded, then ask again."

    def __init__(self, slug: Slug, *, found: int, needed: int) -> None:
        has = say_count(found, "usable run")
        super().__init__(f"Workload {slug!r} has {has}; {needed} needed for a fit.")
        self.slug, self.found, self.needed = slug, found, needed


class RegressorUnavailableError(DomainError):
    """A regressor is published but cannot be used now."""

    remedy = "Retry; if it persists run `trainfare doctor` and fit the workload again."

    def __init__(self, slug: Slug, version: int, reason: str) -> None:
        super().__init__(f"Regressor version {version} of workload {slug!r} is unusable: {reason}")
        self.slug, self.version = slug, version


class RunConflictError(DomainError):
    """An external id was used again with different content; the faults show the difference."""

    remedy = "Send a changed run under a new external_id, or delete the stored run first."

    def __init__(self, faults: Sequence[Fault], *, total: int) -> None:
        super().__init__(
            f"{say_count(total, 'run')} with an external_id that is stored with other content;"
            " nothing was stored.",
            faults=faults,
        )
        self.total = total


class UnitChangeError(DomainError):
    """A change of a workload's dataset unit was requested although runs exist."""

    remedy = "Keep the unit, or use another workload for runs measured in the new unit."

    def __init__(self, slug: Slug, *, stored: str | None, requested: str | None) -> None:
        super().__init__(
            f"Workload {slug!r} has runs with dataset sizes in {stored or 'no stated unit'};"
            f" the unit cannot become {requested or 'none'}."
        )


class SchemaDriftError(DomainError):
    """A parameter's type differs from its declaration or its first use."""

    remedy = "Send the parameter with its first type, or under another name."

    def __init__(self, faults: Sequence[Fault], *, total: int) -> None:
        message = f"{say_count(total, 'value')} not of the parameter's type; nothing was stored."
        super().__init__(message, faults=faults)
        self.total = total


class InvalidRowsError(DomainError):
    """An upload has bad rows, so nothing of it was stored."""

    remedy = "Fix the named rows and send all again."

    def __init__(self, faults: Sequence[Fault], *, bad_rows: int, total_rows: int) -> None:
        named = (
            "" if bad_rows <= MAX_NAMED_FAULTS else f" (the first {MAX_NAMED_FAULTS:,} are named)"
        )
        super().__init__(
            f"{bad_rows:,} of {say_count(total_rows, 'row')} {'is' if bad_rows == 1 else 'are'}"
            f" invalid{named}; nothing was stored.",
            faults=faults,
        )
        self.bad_rows, self.total_rows = bad_rows, total_rows


class InvalidRunsError(InvalidRowsError):
    """An upload of runs has bad rows beside good ones and did not ask to leave them out."""

    remedy = "Fix the named rows and send all again; ?on_invalid=skip takes the good runs."


class InvalidRequestError(DomainError):
    """A request is malformed as a whole or in some of its fields."""

    remedy = "Fix what is named; /docs shows each request's schema."

    def __init__(self, message: str, faults: Sequence[Fault] = ()) -> None:
        super().__init__(message, faults=faults)


class InvalidNameError(InvalidRequestError):
    """The name given to a key or a project is not valid."""

    remedy = "Use 1 to 100 printable characters."

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"{name[:100]!r} cannot be the name of a {kind}.")


class UnknownFieldError(DomainError):
    """A request has fields that no schema knows: a typo never becomes a default.

    Parameters
    ----------
    faults
        One per field.
    missing
        Faults of required fields, which may be present under another name.
    """

    remedy = "Use the suggested field or leave it out."

    def __init__(self, faults: Sequence[Fault], missing: Sequence[Fault] = ()) -> None:
        names = ", ".join(repr(fault.field) for fault in faults[:5])
        message = f"{say_count(len(faults), 'unknown field')}: {names}."
        super().__init__(message, faults=[*faults, *missing])


class UnknownGpuError(DomainError):
    """A GPU name is neither measured for the workload nor known by its specification."""

    remedy = (
        "Use a name that has a specification in GET /v1/gpus, or one that the workload was measured"
        " on; runs on it since the last fit need a new one."
    )

    def __init__(self, name: str, nearest: Sequence[str]) -> None:
        hint = f" Nearest names: {', '.join(nearest)}." if nearest else ""
        fault = Fault(
            "No GPU has this name.",
            f"Use one of {', '.join(nearest)}." if nearest else "See GET /v1/gpus.",
            field="gpu_type",
            value=name,
        )
        super().__init__(f"Unknown GPU type {name!r}.{hint}", faults=[fault])
        self.name, self.nearest = name, tuple(nearest)


class AmbiguousGpuError(DomainError):
    """A GPU name may mean several variants."""

    remedy = "Name one of the variants."

    def __init__(self, name: str, variants: Sequence[str]) -> None:
        fault = Fault(
            "The name stands for several GPUs.",
            f"Use one of {', '.join(variants)}.",
            field="gpu_type",
            value=name,
        )
        super().__init__(f"GPU type {name!r} is ambiguous: {', '.join(variants)}.", faults=[fault])
        self.name, self.variants = name, tuple(variants)


class SpotInfeasibleError(DomainError):
    """Work on spot capacity would be interrupted too often to complete."""

    remedy = "Checkpoint at the interval that would do, or ask for on-demand capacity."

    def __init__(self, *, expected_factor: float, checkpoint_interval_s: float | None) -> None:
        advice = (
            "no checkpoint interval would do."
            if checkpoint_interval_s is None
            else f"a checkpoint every {say_number(checkpoint_interval_s)} s would do."
        )
        super().__init__(
            f"With these interruptions the work would take {say_factor(expected_factor)} times"
            f" as long; {advice}"
        )
        self.checkpoint_interval_s = checkpoint_interval_s
        if checkpoint_interval_s is None:
            self.remedy = "Ask for on-demand capacity."


class InsufficientCapacityError(DomainError):
    """The minimum demands of the jobs together do not fit into the capacity."""

    remedy = 'Offer more GPUs, lower min_workers, or send "on_shortage": "leave_out".'

    def __init__(
        self,
        *,
        needed: int,
        offered: int,
        kept: int,
        fitting: Sequence[str],
        left_out: Sequence[tuple[str, int]],
    ) -> None:
        fits = ", ".join(fitting[:20]) or "none of them"
        faults = [
            Fault(
                f"Needs at least {say_count(gpus, 'GPU')} besides the jobs that fit.",
                "Leave it out, or lower its min_workers.",
                field="ref",
                value=ref,
            )
            for ref, gpus in left_out
        ]
        besides = f" besides the {kept} that running jobs keep" if kept else ""
        # Enough in all, but of several types.
        of_one_type = ", but each job needs its GPUs of one type" if needed <= offered else ""
        super().__init__(
            f"The jobs need at least {say_count(needed, 'GPU')} together; {offered:,}"
            f" {'is' if offered == 1 else 'are'} offered{besides}{of_one_type}."
            f" These would fit: {fits}"
            f"{', ...' if len(fitting) > 20 else ''}.",  # noqa: PLR2004 - as shown
            faults=faults,
        )
        self.needed, self.offered = needed, offered


class IdempotencyKeyReusedError(DomainError):
    """An idempotency key was used again with a different body."""

    remedy = "Use a new Idempotency-Key for a new request."

    def __init__(self, key: str) -> None:
        super().__init__(f"Idempotency-Key {key!r} was used with another body.")


class InProgressError(DomainError):
    """The first request with this idempotency key has not ended yet."""

    remedy = "Wait and retry with the same key and body."

    def __init__(self, key: str) -> None:
        super().__init__(f"A request with Idempotency-Key {key!r} is still in progress.")


class PayloadTooLargeError(DomainError):
    """A body exceeds the limit, counted after decompression."""

    remedy = "Split the upload into several requests."

    def __init__(self, *, limit_bytes: int) -> None:
        super().__init__(f"The body exceeds the limit of {limit_bytes} bytes, decompressed.")


class TooManyValuesError(DomainError):
    """A body has more values than are read at once, since few bytes can require much memory."""

    remedy = "Split the request into several; POST /v1/runs takes any number of runs."

    def __init__(self, limit: int) -> None:
        super().__init__(f"The body has more than about {limit} values.")


class TooManyRowsError(DomainError):
    """An upload has more rows than are checked and stored in one transaction."""

    remedy = "Split the upload into several requests."

    def __init__(self, limit: int) -> None:
        super().__init__(f"The upload has more than {limit} rows; nothing was stored.")


_FORMS: Final = ("application/x-www-form-urlencoded", "multipart/form-data")
"""As what curl sends a body whose type it is not told, and a file by -F."""


class UnsupportedMediaTypeError(DomainError):
    """A body has a content type or encoding that the endpoint does not read."""

    remedy = "Send one of these, and name it in the header."

    def __init__(self, found: str, supported: Sequence[str]) -> None:
        is_form = any(form in found for form in _FORMS)
        hint = (
            f" With curl, add -H 'Content-Type: {supported[0]}' and send a file by"
            " --data-binary @FILE, not by -F."
        )
        super().__init__(
            f"Cannot read {found or 'a body without a type'}: send {', '.join(supported)}."
            f"{hint if is_form else ''}"
        )
