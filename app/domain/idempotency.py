"""First answers by idempotency key: whose request it is and what is replayed."""

from collections.abc import Mapping
from dataclasses import dataclass

from app.domain.identifiers import ProjectId


@dataclass(frozen=True, slots=True)
class IdempotencyTicket:
    """Names a request by project, path and key.

    `fence` is drawn when the request begins: a process that was presumed dead and wakes up late
    holds an old fence and can no longer finish the ticket.
    """

    project_id: ProjectId
    path: str
    key: str
    fence: str = ""


@dataclass(frozen=True, slots=True)
class Replay:
    """The first answer to a request that comes again."""

    status: int
    headers: Mapping[str, str]
    body: bytes
