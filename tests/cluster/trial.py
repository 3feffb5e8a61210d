"""The steps of the trial: what the guides say, then what an operator may meet."""

from collections.abc import Iterator
from typing import Final

from tests.cluster.installation import Installation
from tests.containers.asking import caller_of, check_kept, fitted

_API, _FITTER = "trainfare-api", "trainfare-fitter"
_RAY: Final = ("trainfare-ray-head", "trainfare-ray-worker")
_ASKING: Final = """
import collections, pathlib, urllib.request
counts, stop = collections.Counter(), pathlib.Path("/tmp/stop")
stop.unlink(missing_ok=True)
print("asking", flush=True)
while not stop.exists():
    try:
        counts[urllib.request.urlopen("http://trainfare/healthz", timeout=10).status] += 1
    except Exception as error:
        counts[repr(error)] += 1
print(dict(counts))
"""
"""Asks through the Service, by a new connection each time, as pods of a cluster do."""


def try_out(installation: Installation) -> Iterator[str]:
    """Do all steps in order and tell each one that was done.

    Raises
    ------
    AssertionError
        At the first promise that is broken.
    """
    output = installation.migrate("base")
    assert "The schema went from none" in output, output
    yield f"migrated: {output.strip()}"
    installation.await_rollout(_FITTER)
    create = ("trainfare", "keys", "create", "--name", "trial", "--scope", "admin")
    key = installation.run("exec", f"deploy/{_FITTER}", "--", *create).split()[0]
    installation.await_rollout(_API)
    for deployment in (_API, _FITTER):
        _check_rights(installation, deployment)
    yield "up, neither root nor with a root that can be written to"
    with installation.forwarded() as url, caller_of(url, key) as caller:
        first = fitted(caller, version=1)
    yield f"forecast: {first:.1f} s"
    n_answered = _replaced_while_asked(installation)
    _check_kept(installation, key, first)
    yield f"replaced all replicas during {n_answered} requests, all of them answered"
    _check_end(installation)
    yield "the fitter ended without being killed"
    with installation.forwarded() as url, caller_of(url, key) as caller:
        assert fitted(caller, version=2) == first
    yield "another one fitted the same regressor"
    backup = installation.pipe("exec", f"deploy/{_FITTER}", "--", "trainfare", "backup", "-")
    installation.run("scale", f"deployment/{_API}", f"deployment/{_FITTER}", "--replicas=0")
    output = installation.restore(backup)
    installation.run("scale", f"deployment/{_API}", "--replicas=2")
    installation.run("scale", f"deployment/{_FITTER}", "--replicas=1")
    installation.await_rollout(_FITTER, _API)
    _check_kept(installation, key, first)
    yield f"restored: {output.strip()}"
    output = installation.migrate("base")
    installation.await_rollout(_FITTER, _API)
    _check_kept(installation, key, first)
    yield f"applied again: {output.strip()}"
    installation.apply("autoscaling")
    installation.await_rollout(_FITTER, _API)
    _check_kept(installation, key, first)
    yield "the autoscalers were accepted"
    if installation.images.ray is not None:
        yield from _on_ray(installation, key, first)


def _component(deployment: str) -> str:
    return f"app.kubernetes.io/component={deployment.removeprefix('trainfare-')}"


def _check_rights(installation: Installation, deployment: str) -> None:
    script = "id -u; touch /probe 2>/dev/null && echo written; touch /tmp/probe && echo kept"
    output = installation.run("exec", f"deploy/{deployment}", "--", "sh", "-c", script).split()
    assert output == ["10001", "kept"], f"{deployment}: {output}"


def _check_kept(installation: Installation, key: str, expected: float) -> None:
    with installation.forwarded() as url, caller_of(url, key) as caller:
        check_kept(caller, expected)


def _replaced_while_asked(installation: Installation) -> int:
    """Replace all replicas of the service while a pod asks them; return how often it did."""
    inside = ("exec", f"deploy/{_FITTER}", "--")
    with installation.running(*inside, "python", "-c", _ASKING) as asking:
        assert asking.stdout is not None
        assert asking.stdout.readline() == "asking\n"
        installation.run("rollout", "restart", f"deployment/{_API}")
        installation.await_rollout(_API)
        # The last of the old replicas is still ending when its successors are ready.
        installation.run("exec", f"deploy/{_FITTER}", "--", "sleep", "20")
        installation.run(*inside, "touch", "/tmp/stop")
        counts = asking.stdout.readline().strip()
    assert counts.startswith("{200: "), counts
    assert counts.endswith("}"), counts
    assert "," not in counts, counts
    return int(counts.removeprefix("{200: ").removesuffix("}"))


def _check_end(installation: Installation) -> None:
    """Check that a fitter whose pod is deleted stops by itself within its grace period."""
    pods = ("pods", f"--selector={_component(_FITTER)}", "--output=name")
    pod = installation.run("get", *pods).strip()
    with installation.running("logs", pod, "--follow") as log:
        assert log.stdout is not None
        installation.run("delete", pod, "--wait=false")
        lines = log.stdout.readlines()
    assert "fitter stopped" in lines[-1], lines


def _on_ray(installation: Installation, key: str, expected: float) -> Iterator[str]:
    """Let a cluster of two workers compute the same fit, and lose one of them."""
    installation.migrate("ray")
    installation.await_rollout(*_RAY, _FITTER)
    for deployment in (*_RAY, _FITTER):
        _check_rights(installation, deployment)
    with installation.forwarded() as url, caller_of(url, key) as caller:
        assert fitted(caller, version=3) == expected
    yield "a Ray cluster of two workers computed the same regressor"
    installation.run("scale", "deployment/trainfare-ray-worker", "--replicas=1")
    with installation.forwarded() as url, caller_of(url, key) as caller:
        assert fitted(caller, version=4) == expected
    yield "and of one, when the other had gone"
