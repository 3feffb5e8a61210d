"""What each trial asks of a service that containers run: an upload, a fit, a forecast."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx

ROOT: Final = Path(__file__).parents[2]
_PROFILE: Final = ROOT / "examples" / "profiles" / "ddp-cpu-2core.csv"
_WORKLOAD: Final = "/v1/workloads/ddp-cnn-cpu"
_QUESTION: Final = {
    "workers": "8", "dataset_size": "65536", "batch_size": "512", "epochs": "2",
    "param.width": "24", "param.precision": "fp32",
}  # fmt: skip
_MINUTES_FOR_A_CLUSTER: Final = 6


@contextmanager
def caller_of(url: str, key: str) -> Iterator[httpx.Client]:
    """Give a client of the service that sends the key."""
    # What connected before the service listened again is tried once more.
    with httpx.Client(
        base_url=url,
        headers={"Authorization": f"Bearer {key}"},
        timeout=90,
        transport=httpx.HTTPTransport(retries=3),
    ) as caller:
        yield caller


def fitted(caller: httpx.Client, *, version: int) -> float:
    """Upload, fit the regressor of this version, and return its forecast in seconds."""
    refused = httpx.get(caller.base_url.join("/v1/workloads"))
    assert refused.status_code == httpx.codes.UNAUTHORIZED, refused.text
    _uploaded(caller)
    for _ in range(_MINUTES_FOR_A_CLUSTER):
        # The next request waits for the fit of the first.
        fit = caller.post(f"{_WORKLOAD}/fits", headers={"Prefer": "wait=60"}).json()
        if fit["state"] not in {"queued", "running"}:
            break
    assert (fit["state"], fit["regressor_version"]) == ("succeeded", version), fit
    return _forecast(caller)


def check_kept(caller: httpx.Client, expected: float) -> None:
    """Check that all runs are there, and that the forecast is the same."""
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
