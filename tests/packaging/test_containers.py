"""The image and the compose file are sound as far as that shows without a container engine."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose, PyOptions

from app.cli.processes.serving import GRACE_S

_ROOT = Path(__file__).parents[2]
_DOCKERFILE = (_ROOT / "Dockerfile").read_text()
_COMPOSE = (_ROOT / "docker-compose.yml").read_text()


def _interpolated() -> str:
    """Return the compose file as the engine reads it with an .env that sets what it demands."""
    defaulted = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", _COMPOSE)
    return re.sub(r"\$\{\w+:\?[^}]*\}", "secret", defaulted)


@pytest.fixture
def compose() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(_COMPOSE)
    return document


def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    hadolint = Path(sys.executable).parent / "hadolint"

    subprocess.run([hadolint, "Dockerfile"], cwd=_ROOT, check=True)


def test_image_is_of_two_stages_and_runs_without_rights() -> None:
    assert len(re.findall(r"^FROM ", _DOCKERFILE, re.MULTILINE)) == 2
    assert "USER 10001:10001" in _DOCKERFILE
    assert "ARG REQUIREMENTS=requirements.lock" in _DOCKERFILE
    assert "--require-hashes -r ${REQUIREMENTS}" in _DOCKERFILE
    assert "HEALTHCHECK" in _DOCKERFILE
    assert "PYTHONDONTWRITEBYTECODE=1" in _DOCKERFILE


class _HealthHandler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Answer as a healthy service does, and anything else as a sick one."""
        self.send_response(200 if self.path == "/healthz" else 503)
        self.end_headers()


@contextmanager
def _answering() -> Iterator[int]:
    with HTTPServer(("127.0.0.1", 0), _HealthHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def _is_healthy(port: int, path: str = "/healthz") -> bool:
    match = re.search(r"^HEALTHCHECK(?:.|\n)*?CMD (\[.*\])$", _DOCKERFILE, re.MULTILINE)
    assert match is not None
    [_, *arguments] = json.loads(match[1].replace("/healthz", path))
    closed = dict.fromkeys(("http_proxy", "all_proxy"), "http://127.0.0.1:1")
    environment = {**os.environ, **closed, "TRAINFARE_PORT": str(port)}
    command = [sys.executable, *arguments]
    return (
        subprocess.run(command, env=environment, capture_output=True, check=False).returncode == 0
    )


def test_health_is_asked_without_a_proxy() -> None:
    with _answering() as port:
        assert _is_healthy(port)
        assert not _is_healthy(port, "/elsewhere")
    assert not _is_healthy(port)


def test_everything_copied_into_the_image_is_there_and_not_ignored() -> None:
    allowed = {
        line.removeprefix("!")
        for line in (_ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", _DOCKERFILE, re.MULTILINE)
    for name in " ".join(copied).split():
        assert (_ROOT / name).exists()
        assert name in allowed


def test_compose_file_follows_the_specification() -> None:
    options = PyOptions()
    options.apply_merge = True

    parsed: PyCompose = options.from_yaml(_interpolated())
    parsed.validate()

    assert set(parsed.service_names()) == {
        "postgres", "migrate", "api", "fitter", "ray-fitter", "ray-head", "ray-worker",
    }  # fmt: skip


def test_readers_need_not_agree_on_which_of_two_merged_keys_wins(compose: dict[str, Any]) -> None:
    """PyYAML 6.0.4, by which podman-compose may read, takes the last mapping's key."""
    merged = set(re.findall(r"^    <<: (.*)$", _COMPOSE, re.MULTILINE))

    assert merged == {"[*container, *service]", "[*container, *ray]"}
    assert compose["x-container"].keys().isdisjoint(compose["x-service"].keys())
    assert compose["x-container"].keys().isdisjoint(compose["x-ray"].keys())


def test_migrations_are_their_own_step_between_database_and_service(
    compose: dict[str, Any],
) -> None:
    services = compose["services"]

    assert services["migrate"]["command"] == ["migrate"]
    assert services["migrate"]["depends_on"]["postgres"]["condition"] == "service_healthy"
    for name in ("api", "fitter"):
        condition = services[name]["depends_on"]["migrate"]["condition"]
        assert condition == "service_completed_successfully"
        assert "--migrate" not in services[name]["command"]


def test_settings_of_the_environment_file_reach_the_service(compose: dict[str, Any]) -> None:
    for name in ("migrate", "api", "fitter", "ray-fitter"):
        assert compose["services"][name]["env_file"] == [{"path": ".env", "required": False}]


def test_containers_of_the_service_have_no_rights(compose: dict[str, Any]) -> None:
    for name in ("migrate", "api", "fitter", "ray-fitter", "ray-head", "ray-worker"):
        service = compose["services"][name]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]


def test_engine_kills_nothing_that_still_answers_or_writes(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        seconds = re.fullmatch(r"(\d+)s", service["stop_grace_period"])
        assert seconds is not None, name
        assert int(seconds[1]) > 2 * GRACE_S, name


def test_images_are_pinned_and_nothing_listens_beyond_this_machine(
    compose: dict[str, Any],
) -> None:
    for service in compose["services"].values():
        _, _, tag = service["image"].partition(":")
        assert tag
        assert tag != "latest"
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_ray_runs_in_its_profile_only(compose: dict[str, Any]) -> None:
    with_profile = {name for name, service in compose["services"].items() if "profiles" in service}

    assert with_profile == {"ray-fitter", "ray-head", "ray-worker"}


def test_nodes_of_the_cluster_hold_the_fitters_own_image(compose: dict[str, Any]) -> None:
    services = compose["services"]
    images = {services[name]["image"] for name in ("ray-fitter", "ray-head", "ray-worker")}

    assert images == {"trainfare-ray:0.1.0"}
    assert services["ray-fitter"]["build"]["args"]["REQUIREMENTS"] == "requirements-ray.lock"
    assert services["ray-fitter"]["environment"]["TRAINFARE_RAY_ADDRESS"] == "ray://ray-head:10001"


def test_nodes_of_the_cluster_know_no_settings_and_reach_no_database(
    compose: dict[str, Any],
) -> None:
    services = compose["services"]
    database_networks = set(services["postgres"].get("networks", ["default"]))

    for name in ("ray-head", "ray-worker"):
        node = services[name]
        assert "env_file" not in node
        assert "POSTGRES_PASSWORD" not in str(node)
        assert not database_networks & set(node["networks"]), name
    fitter_networks = set(services["ray-fitter"]["networks"])
    assert fitter_networks == database_networks | set(services["ray-head"]["networks"])
    assert fitter_networks <= compose["networks"].keys()


def test_published_port_leads_to_where_the_service_listens(compose: dict[str, Any]) -> None:
    api = compose["services"]["api"]

    [port] = api["ports"]
    assert port.endswith(f":{api['environment']['TRAINFARE_PORT']}")
    assert api["environment"]["TRAINFARE_HOST"] == "0.0.0.0"
    assert "TRAINFARE_DATABASE_URL" in api["environment"]


def test_every_variable_of_the_compose_file_is_in_the_example() -> None:
    example = (_ROOT / ".env.example").read_text()
    for name in set(re.findall(r"\$\{(\w+)", _COMPOSE)):
        assert re.search(rf"^{name}=", example, re.MULTILINE), name


def test_secrets_are_demanded_not_written_down(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        for variable, value in (service.get("environment") or {}).items():
            if "PASSWORD" in variable or "URL" in variable:
                assert "${POSTGRES_PASSWORD:?" in value, name
