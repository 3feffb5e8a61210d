"""The use cases of projects, keys and the identity of callers."""

import asyncio
import hashlib
import hmac
import logging
import secrets
from collections import OrderedDict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from app.domain import deadlines
from app.domain.access import (
    DEFAULT_PROJECT,
    ApiKey,
    AuditEntry,
    Principal,
    Project,
    Scope,
    check_name,
)
from app.domain.access_errors import UnauthenticatedError, UnneededKeyError
from app.domain.addresses import is_local_name, is_loopback
from app.domain.availability_errors import MissingExtraError, StorageUnavailableError
from app.domain.errors import DomainError, NotFoundError
from app.domain.identifiers import KeyId, ProjectId, new_identifier
from app.domain.instants import elapsed
from app.services.context import ServiceContext
from app.services.identity.anonymous import AnonymousCaller
from app.services.projects import require_project
from app.settings import Settings

if TYPE_CHECKING:
    from app.services.identity.tokens import TokenService

_logger = logging.getLogger(__name__)
_TOKEN_PARTS: Final = 3
_KEY_ID_BYTES: Final = 6
_SECRET_BYTES: Final = 32
_NOT_SHOWN: Final = "(too long for an identifier; not shown, it may be a secret)"
_MAX_TOKEN_LENGTH: Final = 200
_FRESH_FOR: Final = timedelta(seconds=5)
_NOTE_USE_EVERY: Final = timedelta(minutes=1)
_MAX_CACHED: Final = 10_000
_ANONYMOUS: Final = ""
"""The name of a caller without a key; the name of a key is a hash."""


def keys_required(settings: Settings) -> bool:
    """Whether callers must bring a key or a token.

    By default: beyond a loopback address, and wherever an issuer is set. A loopback address may be
    behind a proxy, and whoever names an issuer wants to know who calls.
    """
    if settings.require_keys is not None:
        return settings.require_keys
    return settings.oidc_issuer is not None or not is_loopback(settings.host)


def open_tokens(context: ServiceContext) -> "TokenService":
    """Return the verifier of the tokens of the settings' issuer.

    Raises
    ------
    MissingExtraError
        If the library that it needs is not installed.
    """
    try:
        from app.services.identity.tokens import TokenService  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtraError("oidc", "TRAINFARE_OIDC_ISSUER") from error
    return TokenService(context)


def is_token(text: str) -> bool:
    """Whether a bearer's text looks like a signed token; keys have no dots."""
    return text.count(".") == 2  # noqa: PLR2004 - header.payload.signature


def _key_id_in(text: str) -> KeyId:
    """Return the identifier within a whole key, or else the text."""
    prefix, _, rest = text.strip().partition("_")
    return KeyId(rest.partition("_")[0] if prefix.endswith("tf") else text)


def _sha256(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _bearer_token(authorization: str | None) -> str | None:
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() if scheme.casefold() == "bearer" else None


@dataclass(slots=True)
class _CachedKey:
    """What was last read about a token; `key` is None if it names none."""

    key: ApiKey | None
    requests_per_minute: int | None
    read_at: datetime
    use_noted_at: datetime | None = None
    is_reading: bool = False

    def is_fresh(self, now: datetime) -> bool:
        """Whether it can be used without reading it again, or while that is under way."""
        return self.is_reading or elapsed(self.read_at, now) < _FRESH_FOR


class AccessService:
    """Use cases of projects, keys and the identity of callers."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
        self._cached: OrderedDict[str, _CachedKey] = OrderedDict()
        self._notes = ThreadPoolExecutor(max_workers=1, thread_name_prefix="key-use")
        self._anonymous = AnonymousCaller(context)
        self.requires_keys = keys_required(context.settings)
        # Where keys are not needed because nobody else can connect, and not as the operator's wish.
        self._is_local = not self.requires_keys and context.settings.require_keys is None
        self._tokens = None if context.settings.oidc_issuer is None else open_tokens(context)

    async def authenticate(self, authorization: str | None) -> Principal:
        """Return the caller that an Authorization header names.

        What was read about a key is used for a few seconds, or longer while the database is away.

        Raises
        ------
        UnauthenticatedError
            If keys are required and the header has none or an invalid one.
        """
        token = _bearer_token(authorization)
        if token is None:
            if self.requires_keys:
                raise UnauthenticatedError("the request has no bearer key")
            return await self._anonymous.principal()
        if self._tokens is not None and is_token(token):
            return await self._tokens.authenticate(token)
        if len(token) > _MAX_TOKEN_LENGTH:
            raise self._unknown_key()
        now = self._context.now()
        cached = await self._look_up(token, now)
        if cached.key is None:
            raise self._unknown_key()
        if not cached.key.is_usable(now):
            state = "expired" if cached.key.revoked_at is None else "revoked"
            raise UnauthenticatedError(f"the key {cached.key.key_id!r} is {state}")
        return self._admit(cached, cached.key, now)

    async def still_admits(self, authorization: str | None, caller: Principal) -> bool:
        """Whether an Authorization header still names a caller with the same scopes.

        While that cannot be determined, the last known answer stands.
        """
        try:
            admitted = await self.authenticate(authorization)
        except UnauthenticatedError:
            return False
        except DomainError:
            return True
        return (admitted.project_id, admitted.scopes) == (caller.project_id, caller.scopes)

    def name_of(self, authorization: str | None) -> str | None:
        """Return the name by which `at_hand` knows a caller; it does not reveal the secret.

        None where an Authorization header must be verified each time.
        """
        token = _bearer_token(authorization)
        if token is None:
            return _ANONYMOUS
        is_verified = self._tokens is not None and is_token(token)
        return None if is_verified or len(token) > _MAX_TOKEN_LENGTH else _sha256(token)

    def answers_to(self, authorization: str | None, host: str | None) -> bool:
        """Whether a request with these headers may be answered, whoever sent it.

        Where only this machine can connect, a page of the web whose name was made to lead to it
        (DNS rebinding) could otherwise ask without a key, and read, whatever its user may.
        """
        if host is None or not self._is_local or _bearer_token(authorization) is not None:
            return True
        return is_local_name(host)

    def at_hand(self, name: str) -> Principal | None:
        """Return the same as `authenticate`, None where that would wait or refuse."""
        if name == _ANONYMOUS:
            return None if self.requires_keys else self._anonymous.at_hand()
        now = self._context.now()
        cached = self._cached.get(name)
        if cached is None or cached.key is None or not cached.is_fresh(now):
            return None
        return self._admit(cached, cached.key, now) if cached.key.is_usable(now) else None

    def _unknown_key(self) -> UnauthenticatedError:
        kind = UnauthenticatedError if self.requires_keys else UnneededKeyError
        return kind("the key is unknown")

    def _admit(self, cached: _CachedKey, key: ApiKey, now: datetime) -> Principal:
        self._note_use(cached, key.key_id, now)
        return Principal(key.project_id, key.scopes, key.key_id, cached.requests_per_minute)

    async def _look_up(self, token: str, now: datetime) -> _CachedKey:
        digest = _sha256(token)
        cached = self._cached.get(digest)
        if cached is not None and cached.is_fresh(now):
            return cached
        if cached is None:
            return self._cache(digest, *await asyncio.to_thread(self._find, token, digest), now)
        cached.is_reading = True
        reading = asyncio.create_task(self._refresh(token, digest, cached, now))
        # A silent database is waited for in the background after this.
        await asyncio.wait([reading], timeout=self._context.settings.database_patience_s)
        return reading.result() if reading.done() else cached

    async def _refresh(
        self, token: str, digest: str, cached: _CachedKey, now: datetime
    ) -> _CachedKey:
        try:
            # The request that started this may end earlier.
            with deadlines.unlimited():
                key, per_minute = await asyncio.to_thread(self._find, token, digest)
        except StorageUnavailableError:
            key, per_minute = cached.key, cached.requests_per_minute
        finally:
            cached.is_reading = False
        return self._cache(digest, key, per_minute, now)

    def _cache(
        self, digest: str, key: ApiKey | None, per_minute: int | None, now: datetime
    ) -> _CachedKey:
        previous = self._cached.pop(digest, None)
        cached = _CachedKey(key, per_minute, now, previous.use_noted_at if previous else None)
        self._cached[digest] = cached
        if len(self._cached) > _MAX_CACHED:
            self._cached.popitem(last=False)
        return cached

    def _find(self, token: str, digest: str) -> tuple[ApiKey | None, int | None]:
        """Return the key of a token and its project's limit of requests per minute."""
        parts = token.split("_")
        if len(parts) != _TOKEN_PARTS or parts[0] != "tf" or not token.isascii():
            return None, None
        with self._context.database.reading() as stores:
            stored = stores.access.find_key(KeyId(parts[1]))
            if stored is None or not hmac.compare_digest(stored[1], digest):
                return None, None
            return stored[0], stores.quotas.get(stored[0].project_id).requests_per_minute

    def _note_use(self, cached: _CachedKey, key_id: KeyId, now: datetime) -> None:
        if cached.use_noted_at is None or elapsed(cached.use_noted_at, now) >= _NOTE_USE_EVERY:
            cached.use_noted_at = now
            self._notes.submit(self._write_use, key_id, now)

    def _write_use(self, key_id: KeyId, now: datetime) -> None:
        try:
            with self._context.database.transaction() as stores:
                stores.access.touch_key(key_id, now)
        except DomainError:
            _logger.warning("use of a key was not recorded", extra={"key_id": key_id})

    def create_key(
        self,
        name: str,
        scopes: Iterable[Scope],
        *,
        project: str = DEFAULT_PROJECT,
        lifetime: timedelta | None = None,
    ) -> tuple[ApiKey, str]:
        """Return a new key and its token, which is shown only now; creates a missing project.

        Raises
        ------
        InvalidNameError
            If the name of the key or of its project is not allowed.
        """
        check_name("key", name)
        check_name("project", project)
        now = self._context.now()
        key_id = KeyId(secrets.token_hex(_KEY_ID_BYTES))
        token = f"tf_{key_id}_{secrets.token_hex(_SECRET_BYTES)}"
        with self._context.database.transaction() as stores:
            new = Project(ProjectId(new_identifier("prj")), project)
            owner = stores.access.add_project(new, now)
            key = ApiKey(
                key_id=key_id,
                project_id=owner.project_id,
                name=name,
                scopes=frozenset(scopes),
                created_at=now,
                expires_at=None if lifetime is None else now + lifetime,
            )
            stores.access.add_key(key, _sha256(token))
            stores.access.record_audit(
                owner.project_id, None, now, "key.create", key_id, {"scopes": sorted(key.scopes)}
            )
        return key, token

    def revoke_key(self, key: str) -> KeyId:
        """Make a key invalid, in every process within seconds; return its identifier.

        Parameters
        ----------
        key
            Its identifier, or the whole key, of which only the identifier is read and reported.

        Raises
        ------
        NotFoundError
            If there is no such key.
        """
        now, key_id = self._context.now(), _key_id_in(key)
        with self._context.database.transaction() as stores:
            stored = stores.access.find_key(key_id, hold=True)
            if stored is None:
                is_short = len(key_id) <= 2 * _KEY_ID_BYTES
                raise NotFoundError("key", key_id if is_short else _NOT_SHOWN)
            stores.access.revoke_key(key_id, now)
            stores.access.record_audit(stored[0].project_id, None, now, "key.revoke", key_id)
        return key_id

    def list_keys(self) -> list[tuple[ApiKey, Project]]:
        """Return the keys of all projects, each with its project."""
        with self._context.database.reading() as stores:
            keys = stores.access.list_keys()
            # Read later: a project may be made meanwhile, or removed with its keys.
            projects = {project.project_id: project for project in stores.access.list_projects()}
        return [(key, projects[key.project_id]) for key in keys if key.project_id in projects]

    def list_audit(self, project: str, *, limit: int) -> list[AuditEntry]:
        """Return the newest entries of a project's audit log, the newest first.

        Raises
        ------
        NotFoundError
            If there is no such project.
        """
        with self._context.database.reading() as stores:
            owner = require_project(stores, project)
            return stores.access.list_audit(owner.project_id, limit=limit)

    def has_usable_key(self) -> bool:
        """Whether anybody could authenticate, by a key or an issuer's token."""
        if self._tokens is not None:
            return True
        now = self._context.now()
        return any(key.is_usable(now) for key, _project in self.list_keys())

    def close(self) -> None:
        """Write what is still to be recorded."""
        self._notes.shutdown()
