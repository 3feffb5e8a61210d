"""The steps of the trial: what the guide says, then what an operator may meet."""

from collections.abc import Iterator

import httpx

from tests.containers.composed import ROOT, Composed

_PROFILE = ROOT / "examples" / "profiles" / "ddp-cpu-2core.csv"
_WORKLOAD = "/v1/workloads/ddp-cnn-cpu"
_QUESTION = {
    "workers": "8", "dataset_size": "65536", "batch_size": "512", "epochs": "2",
    "param.width": "24", "param.precision": "fp32",
}  # fmt: skip
_MINUTES_FOR_A_CLUSTER = 3
_ALONE = ("api", "fitter")
_ON_RAY = ("api", "ray-fitter")


def try_out(project: Composed, *, build: bool, with_ray: bool) -> Iterator[str]:
    """Do all steps in order and tell each one that was done.

    Raises
    ------
    AssertionError
        At the first promise that is broken.
    """
    options = ["--build"] if build else []
    output = project.run("run", "--rm", "-T", *options, "migrate")
    assert "The schema went from none" in output, output
    yield f"migrated: {output.strip()}"
    key = project.run(
        "run", "--rm", "-T", "api", "keys", "create", "--name", "trial", "--scope", "admin"
    ).split()[0]
    _await_up(project, *_ALONE)
    yield f"up and healthy at {project.url()}"
    for service in _ALONE:
        _check_rights(project, service)
    yield "neither root nor a root that can be written to"
    with _caller(project, key) as caller:
        first = _fitted(caller, version=1)
        yield f"forecast: {first:.1f} s"
    project.run("restart", "postgres")
    _await_up(project, *_ALONE)
    _check_kept(project, key, first)
    yield "PostgreSQL came back with all it had"
    backup = project.pipe("exec", "-T", "api", "trainfare", "backup", "-")
    project.run("stop", *_ALONE)
    restore = ("run", "--rm", "-T", "--no-deps", "api", "restore", "--overwrite", "-")
    project.pipe(*restore, data=backup)
    _await_up(project, *_ALONE)
    _check_kept(project, key, first)
    yield f"restored from a backup of {len(backup):,} bytes"
    if with_ray:
        yield from _on_ray(project, key, first)
    project.run("--profile", "ray", "stop")
    ended = {name: project.exit_code(name) for name in (_ON_RAY if with_ray else _ALONE)}
    assert set(ended.values()) == {0}, ended
    yield "stopped without being killed"


def _await_up(project: Composed, *arguments: str) -> None:
    """Bring up services and wait for the one that answers.

    `--wait` refuses those whose check is disabled (docker/compose#13522).
    """
    project.run("--profile", "ray", "up", "--detach", *arguments)
    project.run("up", "--detach", "--wait", "--no-recreate", "--no-deps", "api")


def _check_rights(project: Composed, service: str) -> None:
    script = "id -u; touch /probe 2>/dev/null && echo written; touch /tmp/probe && echo kept"
    output = project.run("exec", "-T", service, "sh", "-c", script).split()
    assert output == ["10001", "kept"], f"{service}: {output}"


def _caller(project: Composed, key: str) -> httpx.Client:
    # What connected before the service listened again is tried once more.
    return httpx.Client(
        base_url=project.url(),
        headers={"Authorization": f"Bearer {key}"},
        timeout=90,
        transport=httpx.HTTPTransport(retries=3),
    )


def _fitted(caller: httpx.Client, *, version: int) -> float:
    """Upload, fit the regressor of this version, and return its forecast in seconds."""
    refused = httpx.get(caller.base_url.join("/v1/workloads"))
    assert refused.status_code == httpx.codes.UNAUTHORIZED, refused.text
    _uploaded(caller)
    for _ in range(_MINUTES_FOR_A_CLUSTER):
        # A second request waits for the fit of the first.
        fit = caller.post(f"{_WORKLOAD}/fits", headers={"Prefer": "wait=60"}).json()
        if fit["state"] != "queued":
            break
    assert (fit["state"], fit["regressor_version"]) == ("succeeded", version), fit
    return _forecast(caller)


def _check_kept(project: Composed, key: str, expected: float) -> None:
    """Check that all runs are there, and that the forecast is the same."""
    with _caller(project, key) as caller:
        assert _uploaded(caller)["created"] == 0
        assert _forecast(caller) == expected


def _uploaded(caller: httpx.Client) -> dict[str, int]:
    """Upload the profile and return how many of its runs were created and known before."""
    headers = {"Content-Type": "text/csv"}
    answer = caller.post("/v1/runs", content=_PROFILE.read_bytes(), headers=headers)
    assert answer.is_success, answer.text
    counts: dict[str, int] = answer.json()
    return counts


def _forecast(caller: httpx.Client) -> float:
    answer = caller.get(f"{_WORKLOAD}/forecast", params=_QUESTION)
    assert answer.is_success, answer.text
    seconds = float(answer.json()["duration_seconds"]["median"])
    assert seconds > 0
    return seconds


def _on_ray(project: Composed, key: str, expected: float) -> Iterator[str]:
    """Let a cluster of two workers compute the same fit, and lose one of them."""
    _await_up(project, "--scale", "fitter=0", "--scale", "ray-worker=2")
    for service in ("ray-fitter", "ray-head", "ray-worker"):
        _check_rights(project, service)
    with _caller(project, key) as caller:
        assert _fitted(caller, version=2) == expected
    yield "a Ray cluster of two workers computed the same regressor"
    _await_up(project, "--scale", "fitter=0", "--scale", "ray-worker=1")
    with _caller(project, key) as caller:
        assert _fitted(caller, version=3) == expected
    yield "and of one, when the other had gone"
