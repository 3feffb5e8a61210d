"""The steps of the trial: what the guide says, then what an operator may meet."""

from collections.abc import Iterator

from tests.containers.asking import caller_of, check_kept, fitted
from tests.containers.composed import Composed

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
    with caller_of(project.url(), key) as caller:
        first = fitted(caller, version=1)
        yield f"forecast: {first:.1f} s"
    project.run("restart", "postgres")
    _await_up(project, *_ALONE)
    with caller_of(project.url(), key) as caller:
        check_kept(caller, first)
    yield "PostgreSQL came back with all it had"
    backup = project.pipe("exec", "-T", "api", "trainfare", "backup", "-")
    project.run("stop", *_ALONE)
    restore = ("run", "--rm", "-T", "--no-deps", "api", "restore", "--overwrite", "-")
    project.pipe(*restore, data=backup)
    _await_up(project, *_ALONE)
    with caller_of(project.url(), key) as caller:
        check_kept(caller, first)
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


def _on_ray(project: Composed, key: str, expected: float) -> Iterator[str]:
    """Let a cluster of two workers compute the same fit, and lose one of them."""
    _await_up(project, "--scale", "fitter=0", "--scale", "ray-worker=2")
    for service in ("ray-fitter", "ray-head", "ray-worker"):
        _check_rights(project, service)
    with caller_of(project.url(), key) as caller:
        assert fitted(caller, version=2) == expected
    yield "a Ray cluster of two workers computed the same regressor"
    _await_up(project, "--scale", "fitter=0", "--scale", "ray-worker=1")
    with caller_of(project.url(), key) as caller:
        assert fitted(caller, version=3) == expected
    yield "and of one, when the other had gone"
