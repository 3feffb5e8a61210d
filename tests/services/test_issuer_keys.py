"""Keys that are known serve while the issuer hangs, and nobody waits for it without end."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from app.domain.access_errors import InvalidTokenError, IssuerUnavailableError
from app.services.identity.issuer_keys import IssuerKeys
from tests.support.clock import FakeClock
from tests.support.issuer import Issuer, running_issuer

pytestmark = pytest.mark.lengthy


@pytest.fixture
def issuer(clock: FakeClock) -> Iterator[Issuer]:
    with running_issuer(clock()) as issuer:
        yield issuer
        issuer.gate.set()


def test_known_key_serves_while_an_invented_one_is_looked_for(
    issuer: Issuer, clock: FakeClock
) -> None:
    async def run() -> list[object]:
        keys = IssuerKeys(issuer.url, f"{issuer.url}/keys", clock, limit_s=600)
        known = await keys.find("first")
        clock.advance(31)
        issuer.gate.clear()
        issuer.was_called.clear()
        invented = [asyncio.create_task(keys.find("invented")) for _ in range(40)]
        await asyncio.to_thread(issuer.was_called.wait)
        assert await keys.find("first") is known
        assert not any(each.done() for each in invented)
        issuer.gate.set()
        return await asyncio.gather(*invented, return_exceptions=True)

    assert {type(each) for each in asyncio.run(run())} == {InvalidTokenError}
    assert issuer.fetched == ["/keys", "/keys"]


@pytest.mark.parametrize("keys_at", [None, "/keys"])
def test_issuer_on_this_machine_is_asked_without_a_proxy(
    issuer: Issuer, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, keys_at: str | None
) -> None:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    keys = IssuerKeys(issuer.url, None if keys_at is None else issuer.url + keys_at, clock)

    assert asyncio.run(keys.find("first")).algorithm == "RS256"


def test_issuer_that_hangs_is_given_up(issuer: Issuer, clock: FakeClock) -> None:
    issuer.gate.clear()
    keys = IssuerKeys(issuer.url, None, clock, limit_s=0.01)

    with pytest.raises(IssuerUnavailableError):
        asyncio.run(keys.find("first"))


@pytest.mark.parametrize(
    "strange",
    [
        {"kid": ["a"]},
        {"kid": {}},
        {"kty": []},
        {"alg": ["RS256"]},
        {"n": 7},
        {"n": ""},
        {"e": None},
    ],
)
def test_key_that_is_told_strangely_spoils_no_other(
    issuer: Issuer, clock: FakeClock, strange: dict[str, Any]
) -> None:
    told = {**issuer.keys[0], "kid": "strange", **strange}
    issuer.keys = [told, *issuer.keys, told]
    keys = IssuerKeys(issuer.url, None, clock)

    found = asyncio.run(keys.find("first"))

    assert found.algorithm == "RS256"


def test_keys_are_fetched_again_after_the_clock_was_set_back(
    issuer: Issuer, clock: FakeClock
) -> None:
    keys = IssuerKeys(issuer.url, f"{issuer.url}/keys", clock)
    asyncio.run(keys.find("first"))
    clock.advance(-86_400)
    issuer.keys = [{**issuer.keys[0], "kid": "second"}]

    with pytest.raises(InvalidTokenError):
        asyncio.run(keys.find("first"))
    assert asyncio.run(keys.find("second")).algorithm == "RS256"
