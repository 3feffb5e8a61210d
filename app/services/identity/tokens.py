"""Identifies callers by the tokens of an OpenID Connect issuer, beside API keys."""

import asyncio
import hashlib
import sys
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import jwt

from app.domain.access import Principal, Scope
from app.domain.access_errors import InvalidTokenError
from app.domain.availability_errors import StorageUnavailableError
from app.domain.identifiers import KeyId, ProjectId
from app.domain.instants import elapsed
from app.services.context import ServiceContext
from app.services.identity.issuer_keys import IssuerKeys, SigningKey
from app.settings import Settings

_MAX_TOKEN_LENGTH: Final = 8192
_MAX_CACHED: Final = 10_000
_KEY_ID_LENGTH: Final = 40
_VERIFIED_FOR: Final = timedelta(minutes=5)
_PROJECT_FRESH_FOR: Final = timedelta(seconds=5)
_REQUIRED: Final = ("exp", "iss", "aud", "sub")
_FAULTS: Final[dict[type[Exception], str]] = {
    jwt.InvalidAudienceError: "its `aud` does not name this service",
    jwt.InvalidIssuerError: "its `iss` is not the issuer that this service trusts",
    jwt.InvalidSignatureError: "its signature is not that of its issuer",
}


@dataclass(frozen=True, slots=True)
class _Token:
    """What a verified token says."""

    caller: KeyId
    project: str
    scopes: frozenset[Scope]
    not_before: float
    expires_at: float
    verified_at: datetime


@dataclass(frozen=True, slots=True)
class _Project:
    project_id: ProjectId | None
    requests_per_minute: int | None
    read_at: datetime


class TokenService:
    """Verifies tokens of the issuer named in the settings and maps their claims.

    Parameters
    ----------
    context
        The surroundings of the service; its settings name an issuer.
    """

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
        settings = context.settings
        assert settings.oidc_issuer is not None
        self._settings = settings
        self._keys = IssuerKeys(settings.oidc_issuer, settings.oidc_jwks_url, context.now)
        self._tokens: OrderedDict[bytes, _Token] = OrderedDict()
        self._projects: dict[str, _Project] = {}

    async def authenticate(self, text: str) -> Principal:
        """Return the caller that a token names.

        A verified token is accepted for some minutes without checking its signature again, but
        never beyond its expiry.

        Raises
        ------
        InvalidTokenError
            If the token is not valid here and now, or names no existing project.
        IssuerUnavailableError
            If the issuer's keys are unknown and it does not answer.
        """
        if len(text) > _MAX_TOKEN_LENGTH:
            raise InvalidTokenError("the token is too long")
        now, digest = self._context.now(), hashlib.sha256(text.encode()).digest()
        token = self._tokens.get(digest)
        if token is None or elapsed(token.verified_at, now) >= _VERIFIED_FOR:
            key = await self._key_of(text)
            token = await asyncio.to_thread(self._verify, text, key, now)
            self._cache(digest, token)
        self._check_times(token, now)
        project = await self._project(token.project, now)
        if project.project_id is None:
            raise InvalidTokenError("the token's project does not exist")
        return Principal(
            project.project_id, token.scopes, token.caller, project.requests_per_minute
        )

    def _cache(self, digest: bytes, token: _Token) -> None:
        self._tokens[digest] = token
        if len(self._tokens) > _MAX_CACHED:
            self._tokens.popitem(last=False)

    async def _key_of(self, text: str) -> SigningKey:
        """Return the key that a token says it is signed with."""
        try:
            header = jwt.get_unverified_header(text)
            if header.get("alg") not in self._settings.oidc_algorithms:
                raise InvalidTokenError("the token's algorithm is not allowed")
            return await self._keys.find(header.get("kid"))
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise _invalid(error) from error

    def _verify(self, text: str, key: SigningKey, now: datetime) -> _Token:
        settings = self._settings
        allowed = set(settings.oidc_algorithms)
        try:
            claims = jwt.decode(
                text,
                key.key,
                # A key that is meant for one algorithm verifies no other.
                algorithms=[*allowed] if key.algorithm is None else [*allowed & {key.algorithm}],
                audience=settings.oidc_audience,
                issuer=settings.oidc_issuer,
                options={
                    "require": [*_REQUIRED],
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                    "enforce_minimum_key_length": True,
                },
            )
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise _invalid(error) from error
        return _read(claims, settings, now)

    def _check_times(self, token: _Token, now: datetime) -> None:
        """Compare with the service's own clock; issuers' clocks may deviate by the leeway."""
        leeway_s = self._settings.oidc_leeway_s
        if now.timestamp() >= token.expires_at + leeway_s:
            raise InvalidTokenError("the token has expired")
        if now.timestamp() < token.not_before - leeway_s:
            raise InvalidTokenError("the token is not valid yet")

    async def _project(self, name: str, now: datetime) -> _Project:
        cached = self._projects.get(name)
        if cached is not None and elapsed(cached.read_at, now) < _PROJECT_FRESH_FOR:
            return cached
        try:
            patience_s = None if cached is None else self._settings.database_patience_s
            async with asyncio.timeout(patience_s):
                project = await asyncio.to_thread(self._read_project, name, now)
        except (StorageUnavailableError, TimeoutError):
            if cached is None:
                raise
            return cached
        if len(self._projects) >= _MAX_CACHED:
            self._projects.clear()
        self._projects[name] = project
        return project

    def _read_project(self, name: str, now: datetime) -> _Project:
        with self._context.database.reading() as stores:
            project = stores.access.find_project(name)
            if project is None:
                return _Project(None, None, now)
            quota = stores.quotas.get(project.project_id)
            return _Project(project.project_id, quota.requests_per_minute, now)


def _invalid(error: Exception) -> InvalidTokenError:
    # The library's messages may quote what was sent.
    if isinstance(error, jwt.MissingRequiredClaimError):
        reason = f"it has no `{error.claim}`"
    else:
        reason = _FAULTS.get(type(error), type(error).__name__)
    return InvalidTokenError(f"the token is not valid ({reason})")


def _read(claims: Mapping[str, Any], settings: Settings, now: datetime) -> _Token:
    project = claims.get(settings.oidc_project_claim, settings.oidc_project)
    # No project has an unprintable name, and databases do not accept every such character.
    if not isinstance(project, str) or not project or not project.isprintable():
        raise InvalidTokenError("the token names no project")
    subject = str(claims["sub"])
    caller = f"oidc:{subject}"
    if len(caller) > _KEY_ID_LENGTH or not caller.isprintable():
        caller = f"oidc:{hashlib.sha256(subject.encode(errors='surrogatepass')).hexdigest()[:32]}"
    granted = _scopes(claims.get(settings.oidc_scope_claim), settings.oidc_scope_map)
    return _Token(
        caller=KeyId(caller),
        project=project,
        scopes=frozenset(granted),
        not_before=_instant(claims.get("nbf", 0)),
        expires_at=_instant(claims["exp"]),
        verified_at=now,
    )


def _instant(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidTokenError("the token's times are not numbers")
    # No instant is later than NaN or infinity: such a token would never expire.
    if not abs(value) <= sys.float_info.max:
        raise InvalidTokenError("the token's times are not finite numbers")
    return float(value)


def _scopes(claim: object, scope_map: Mapping[str, tuple[Scope, ...]]) -> Iterator[Scope]:
    """Yield the scopes that a claim's words grant: mapped ones, or scopes by their own names."""
    words = claim.split() if isinstance(claim, str) else claim
    for word in words if isinstance(words, list) else ():
        if not isinstance(word, str):
            continue
        if word in scope_map:
            yield from scope_map[word]
        elif word in set(Scope) and not scope_map:
            yield Scope(word)
