"""Proxies of the environment and logins in addresses: what is asked, and what is shown."""

import logging

import httpx2
import pytest

from app.services.identity.proxies import proxy_to, unproxied
from tests.support.terminal import Terminal

pytestmark = pytest.mark.lengthy

_CLOSED = "http://ada:secret@127.0.0.1:1"


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.cli.connection._ATTEMPTS", 1)
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize("name", ["http_proxy", "all_proxy"])
@pytest.mark.parametrize("proxy", [_CLOSED, "socks5://127.0.0.1:1", "nonsense://127.0.0.1"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_this_machine_is_asked_without_a_proxy(
    terminal: Terminal,
    service_url: str,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    proxy: str,
    host: str,
) -> None:
    monkeypatch.setenv(name, proxy)

    result = terminal.type("workloads", "--url", service_url.replace("127.0.0.1", host))

    assert result.exit_code == 0, result.err


def test_certificates_of_the_environment_count_for_this_machine_too() -> None:
    assert unproxied(httpx2.URL("https://[::1]:8443")) == {"mounts": {"all://[::1]": None}}
    assert unproxied(httpx2.URL("http://127.3.2.1")) == {"trust_env": False}
    assert unproxied(httpx2.URL("http://fare.example")) == {}


def test_proxy_that_does_not_answer_is_named_without_its_login(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", _CLOSED)

    result = terminal.type("workloads", "--url", "http://eve:hidden@fare.example")

    assert result.exit_code == 3
    assert (
        "http://fare.example does not answer through the proxy http://127.0.0.1:1: " in result.err
    )
    assert "NO_PROXY=fare.example bypasses it" in result.err
    assert "secret" not in result.err
    assert "hidden" not in result.err


def test_host_that_needs_no_proxy_is_not_told_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "fare.example")

    assert proxy_to(httpx2.URL("https://other.example")) == "http://proxy:3128"
    assert proxy_to(httpx2.URL("https://fare.example")) is None


def test_proxy_that_cannot_be_used_is_wrong_usage(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "nonsense://eve:hidden@proxy")

    result = terminal.type("workloads", "--url", "http://fare.example")

    assert result.exit_code == 2
    assert "HTTP_PROXY" in result.err
    assert "hidden" not in result.err


@pytest.mark.parametrize("url", [_CLOSED, "ada:secret@127.0.0.1", "http://ada:secret@[::1"])
def test_login_of_an_address_is_never_shown(terminal: Terminal, url: str) -> None:
    result = terminal.type("workloads", "--url", url)

    assert result.exit_code in {2, 3}
    assert "secret" not in result.err


def test_login_of_an_address_is_in_no_log(
    terminal: Terminal, service_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        result = terminal.type("workloads", "--url", service_url.replace("//", "//ada:secret@"))

    assert result.exit_code == 0
    assert "/v1/workloads" in caplog.text
    assert "secret" not in caplog.text
