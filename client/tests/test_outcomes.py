"""What ended a training, by the words and the names of what was raised."""

import asyncio

import pytest
from trainfare_client import Client, ClientSettings, record
from trainfare_client.collectors.outcomes import status_of


@pytest.mark.parametrize(
    "said",
    [
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 4503599627370496 bytes.",
        "[Errno 12] Cannot allocate memory",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "std::bad_alloc",
        "bad allocation",
        "RESOURCE_EXHAUSTED: Out of memory allocating 17179869184 bytes.",
    ],
)
def test_lack_of_memory_has_many_words(said: str) -> None:
    assert status_of(RuntimeError(said)) == "out_of_memory"


def test_work_that_was_called_off_is_cancelled(
    client: Client, settings: ClientSettings, workload: str
) -> None:
    @record(workload, settings=settings, quiet=True)
    async def train() -> None:
        await asyncio.sleep(600)

    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(asyncio.wait_for(train(), 0.01))

    assert [run["status"] for run in client.runs.all(workload)] == ["cancelled"]
    assert status_of(type("TrialPruned", (Exception,), {})()) == "cancelled"


def test_orderly_exit_is_a_success() -> None:
    assert status_of(SystemExit(0)) == "succeeded"
