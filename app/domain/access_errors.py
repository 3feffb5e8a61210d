"""Refusals because of who asks, or of how much is asked."""

from app.domain.errors import DomainError


class UnauthenticatedError(DomainError):
    """There is no key, or it is unknown, expired or revoked."""

    remedy = (
        "Send `Authorization: Bearer KEY`; an operator makes keys with `trainfare keys create`."
    )

    def __init__(self, reason: str) -> None:
        super().__init__(f"Authentication failed: {reason}.")


class UnneededKeyError(UnauthenticatedError):
    """An unknown key was sent to a service that demands none."""

    remedy = (
        "Leave the `Authorization` header out: this service demands no key. `trainfare keys list`"
        " shows its operator the keys that it knows."
    )


class InvalidTokenError(UnauthenticatedError):
    """A token of an issuer is not valid here and now, or lacks claims."""

    remedy = (
        "Send a new token of the issuer that this service trusts, made for this service and for a"
        " project that exists, or an API key."
    )


class IssuerUnavailableError(DomainError):
    """The issuer of tokens does not answer, and the needed key is not cached."""

    remedy = "Retry; if it persists, the operator's log tells why."

    def __init__(self) -> None:
        super().__init__("The keys of the token's issuer are not available at the moment.")


class ForbiddenError(DomainError):
    """The key or token lacks a scope."""

    remedy = "Ask the operator for a key, or the issuer for a token, with the named scope."

    def __init__(self, scope: str) -> None:
        super().__init__(f"The key or token lacks the scope '{scope}'.")
        self.scope = scope


class RefitPolicyForbiddenError(ForbiddenError):
    """The key may declare workloads but not decide when they are refitted."""

    remedy = (
        "Send the refit_policy that GET /v1/workloads/{workload} shows (a new workload has none:"
        " leave it out), or ask the operator for a key with the named scope."
    )

    def __init__(self, scope: str) -> None:
        super().__init__(scope)
        self.args = (f"{self} A change of refit_policy needs it, since fits follow from it.",)


class ForeignPageError(DomainError):
    """A browser sent a change for a page that is not the service's own."""

    remedy = "Send it from a program, or from a page of this service."

    def __init__(self) -> None:
        super().__init__("A page of another site asked the browser for this change.")


class ForeignNameError(DomainError):
    """A request without a key calls this machine by a name that others can give it."""

    remedy = (
        "Ask for localhost or for the address. Behind a proxy, let it send one of them as Host, or"
        " set TRAINFARE_REQUIRE_KEYS: true demands keys, false trusts everyone who can connect."
    )

    def __init__(self, host: str) -> None:
        super().__init__(f"Without keys, the service does not answer to the name {host[:100]!r}.")


class QuotaExceededError(DomainError):
    """The caller exceeds its rate limit."""

    remedy = "Wait as long as Retry-After says."

    def __init__(self, *, limit: str, retry_after_s: int) -> None:
        super().__init__(f"The rate limit of {limit} is exhausted.")
        self.retry_after_s = retry_after_s


class ProjectLimitError(DomainError):
    """A project would exceed one of its limits."""

    remedy = "Remove what is not needed any more, or ask the operator for a higher limit."

    def __init__(
        self, what: str, *, limit: int, count: int, retry_after_s: int | None = None
    ) -> None:
        super().__init__(
            f"The project may have {limit} {what}; this would make it {count}. Nothing was stored."
        )
        self.what, self.limit, self.retry_after_s = what, limit, retry_after_s
