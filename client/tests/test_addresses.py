"""Addresses: logins are used and not shown, and no proxy leads to this machine."""

import base64
import logging
from pathlib import Path

import pytest
from trainfare_client import Client, ClientSettings, UnreachableError, read_settings
from trainfare_client.addresses import proxy_to
from trainfare_client.collectors.delivering import Delivery
from trainfare_client.errors import SettingsError

from client.tests.faulty import Answer, faulty_server
from client.tests.runs import make_run

_CLOSED = "http://ada:secret@127.0.0.1:1"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def _settings(url: str, folder: Path) -> ClientSettings:
    return ClientSettings(url=url, attempts=1, spool=folder / "spool.jsonl")


@pytest.mark.parametrize("proxy", [_CLOSED, "socks5://127.0.0.1:1", "nonsense://127.0.0.1"])
def test_this_machine_is_asked_without_a_proxy(
    client: Client, monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.setenv("all_proxy", proxy)

    assert client.is_ready()


def test_proxy_that_does_not_answer_is_named_without_its_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", _CLOSED)
    settings = _settings("http://eve:hidden@fare.example", tmp_path)

    with Client(settings=settings) as client, pytest.raises(UnreachableError) as caught:
        client.workloads.get("w")

    message = str(caught.value)
    assert "http://fare.example does not answer through the proxy http://127.0.0.1:1: " in message
    assert "NO_PROXY=fare.example bypasses it" in message
    assert "secret" not in message
    assert "hidden" not in message


def test_answer_of_a_proxy_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with faulty_server(Answer(404, b"no such host")) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        settings = _settings("http://fare.example", tmp_path)
        with Client(settings=settings) as client, pytest.raises(UnreachableError) as caught:
            client.workloads.get("w")

    assert f"Is {proxy.url} the right proxy?" in str(caught.value)


def test_proxy_that_cannot_be_used_is_a_setting_without_meaning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "nonsense://eve:hidden@proxy")
    settings = _settings("http://fare.example", tmp_path)

    with Client(settings=settings) as client, pytest.raises(SettingsError, match="proxy") as caught:
        client.workloads.get("w")

    assert "hidden" not in str(caught.value)


def test_host_that_needs_no_proxy_is_not_told_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "fare.example")

    assert proxy_to("https://other.example") == "http://proxy:3128"
    assert proxy_to("https://fare.example") is None


def test_login_of_an_address_is_used_and_in_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with faulty_server(Answer(200, b'{"workload":"w"}')) as server:
        settings = _settings(server.url.replace("//", "//ada:s%40cret@"), tmp_path)
        with caplog.at_level(logging.DEBUG), Client(settings=settings) as client:
            client.workloads.get("w")

    (_, _, headers, _) = server.requests[0]
    assert headers["Authorization"] == "Basic " + base64.b64encode(b"ada:s@cret").decode()
    assert "/v1/workloads/w" in caplog.text
    assert "cret" not in caplog.text + repr(settings)


@pytest.mark.parametrize("url", ["ada:secret@127.0.0.1", "http://ada:secret@[::1"])
def test_login_of_what_is_no_address_is_not_shown(url: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_settings(url=url)

    assert "secret" not in str(caught.value)


def test_login_is_not_shown_where_a_run_waits(tmp_path: Path) -> None:
    delivery = Delivery(make_run("w"), _settings(_CLOSED, tmp_path))
    delivery.upload()

    message = delivery.settle()

    assert "the service at http://127.0.0.1:1 has not answered" in message
