"""The public keys that an OpenID Connect issuer signs its tokens with."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

import httpx2
import jwt
import orjson

from app.domain.access_errors import InvalidTokenError, IssuerUnavailableError
from app.domain.addresses import is_safe_url
from app.domain.instants import elapsed
from app.services.identity.proxies import unproxied

_logger = logging.getLogger(__name__)
_DISCOVERY: Final = "/.well-known/openid-configuration"
_LIMIT_S: Final = 5.0
"""How long a fetch may take in total, including that of the discovery document."""

_MAX_BYTES: Final = 1 << 20
_FETCH_AT_MOST_EVERY: Final = timedelta(seconds=30)
_FETCH_AT_LEAST_EVERY: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A public key and the one algorithm it is meant for, None if it names none."""

    key: Any
    algorithm: str | None


class IssuerKeys:
    """Fetches keys when they are needed and old, or when a token names an unknown one.

    A sender of tokens with invented key ids causes at most one fetch in 30 seconds, and waits for
    it without occupying a thread. Known keys stay in use during a fetch, and while the issuer does
    not answer. Used by the event loop alone.

    Parameters
    ----------
    issuer
        The issuer's URL, as its tokens state it.
    jwks_url
        Where its keys are; None: where its discovery document says they are.
    now
        The clock.
    limit_s
        The longest that a fetch may take, in seconds.
    """

    def __init__(
        self,
        issuer: str,
        jwks_url: str | None,
        now: Callable[[], datetime],
        *,
        limit_s: float = _LIMIT_S,
    ) -> None:
        self._issuer = issuer
        self._jwks_url = jwks_url
        self._now = now
        self._limit_s = limit_s
        self._fetching: asyncio.Task[None] | None = None
        self._keys: Mapping[str | None, SigningKey] = {}
        self._fetched_at: datetime | None = None
        self._tried_at: datetime | None = None

    async def find(self, key_id: str | None) -> SigningKey:
        """Return the key of an id; for a token without one, the only key there is.

        Raises
        ------
        InvalidTokenError
            If the issuer has no such key.
        IssuerUnavailableError
            If the key is not known, and the last fetch of keys failed.
        """
        if self._is_due(key_id):
            self._tried_at = self._now()
            self._fetching = asyncio.create_task(self._refresh(self._tried_at))
            await asyncio.wait([self._fetching])
        elif self._fetching is not None and self._cached(key_id) is None:
            await asyncio.wait([self._fetching])
        key = self._cached(key_id)
        if key is not None:
            return key
        if self._fetched_at != self._tried_at:
            # The key may be new; after a failed fetch nobody can say whether the issuer has it.
            raise IssuerUnavailableError
        raise InvalidTokenError("the token's key is not one of its issuer's")

    def _cached(self, key_id: str | None) -> SigningKey | None:
        if key_id is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(key_id)

    def _is_due(self, key_id: str | None) -> bool:
        now = self._now()
        if self._tried_at is not None and elapsed(self._tried_at, now) < _FETCH_AT_MOST_EVERY:
            return False
        is_old = self._fetched_at is None or elapsed(self._fetched_at, now) >= _FETCH_AT_LEAST_EVERY
        return is_old or self._cached(key_id) is None

    async def _refresh(self, begun_at: datetime) -> None:
        try:
            async with asyncio.timeout(self._limit_s):
                keys = _signing_keys(await self._fetch(await self._find_url()))
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, TimeoutError) as error:
            reason = f"{type(error).__name__}: {error}"
            extra = {"issuer": self._issuer, "reason": reason}
            _logger.warning("keys of the issuer were not fetched", extra=extra)
        else:
            self._keys, self._fetched_at = keys, begun_at
        finally:
            self._fetching = None

    async def _find_url(self) -> str:
        if self._jwks_url is not None:
            return self._jwks_url
        document = await self._fetch(self._issuer.rstrip("/") + _DISCOVERY)
        url = document.get("jwks_uri")
        if document.get("issuer") != self._issuer:
            raise ValueError("the discovery document is that of another issuer")
        if not isinstance(url, str) or not is_safe_url(url):
            raise ValueError("the discovery document has no safe jwks_uri")
        return url

    async def _fetch(self, url: str) -> dict[str, Any]:
        """Return a JSON object of bounded size; redirections are not followed.

        An address of this machine is fetched without a proxy, so that nobody can alter the answer.
        """
        options = {"timeout": self._limit_s, **unproxied(httpx2.URL(url))}
        content = bytearray()
        # Loading the trusted certificates takes a while.
        client = await asyncio.to_thread(partial(httpx2.AsyncClient, **options))
        async with client, client.stream("GET", url) as response:
            response.raise_for_status()
            async for chunk in response.aiter_bytes():
                content += chunk
                if len(content) > _MAX_BYTES:
                    raise ValueError("the document is too large")
        document = orjson.loads(content)
        if not isinstance(document, dict):
            raise ValueError("the document is not a JSON object")  # noqa: TRY004 - of a bad document
        return document


def _signing_keys(document: Mapping[str, Any]) -> dict[str | None, SigningKey]:
    """Return the usable keys by id: public ones for signatures."""
    entries = document.get("keys")
    keys: dict[str | None, SigningKey] = {}
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict) or not _is_for_signatures(entry):
            continue
        try:
            key = jwt.PyJWK(entry).key
        except (jwt.PyJWTError, ValueError, TypeError):
            continue
        keys[entry.get("kid")] = SigningKey(key, entry.get("alg"))
    if not keys:
        raise ValueError("the issuer has no usable key")
    return keys


def _is_for_signatures(entry: Mapping[str, Any]) -> bool:
    """Whether it is a public signature key whose id and algorithm, if present, are texts."""
    texts = (entry.get("kty"), entry.get("kid", ""), entry.get("alg", ""))
    return (
        all(isinstance(text, str) for text in texts)
        and entry.get("use", "sig") == "sig"
        and entry["kty"] in {"RSA", "EC", "OKP"}
    )
