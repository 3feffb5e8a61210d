"""The loop's collector, which needs no torch until the training has it."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from trainfare_client import Client, ClientSettings
from trainfare_client.collectors.recording import Recorder, RunOptions
from trainfare_client.collectors.torch import (
    TorchCollector,
    WatchedLoader,
    communication_s,
    samples_in,
)


@dataclass
class Loader:
    """A loader of lists."""

    dataset: list[int] = field(default_factory=lambda: list(range(20)))
    batch_size: int = 5

    def __iter__(self) -> Iterator[list[int]]:
        for start in range(0, len(self.dataset), self.batch_size):
            yield self.dataset[start : start + self.batch_size]

    def __len__(self) -> int:
        return 4


class Parallel:
    """A model that tells of its steps as DistributedDataParallel does."""

    def __init__(self, **logging_data: int) -> None:
        self.logging_data = logging_data

    def _get_ddp_logging_data(self) -> dict[str, int]:
        return self.logging_data


def test_sizes_passes_and_communication_are_found(
    client: Client, settings: ClientSettings, workload: str
) -> None:
    model = Parallel(avg_backward_comm_time=5_000, avg_backward_compute_comm_overlap_time=1_000)
    with TorchCollector(workload, model=model, settings=settings, quiet=True) as collector:
        loader = collector.watch(Loader())
        for _ in range(2):
            seen = sum(samples_in(batch) for batch in loader)
    (run,) = client.runs.all(workload)

    assert (seen, len(loader), loader.batch_size) == (20, 4, 5)
    assert run["work"] == {"dataset_size": 20, "batch_size": 5, "epochs": 2}
    assert run["phases"]["communication_seconds"] == pytest.approx(8 * 4e-6)


def test_copy_of_a_watched_loader_yields_the_same(settings: ClientSettings) -> None:
    collector = TorchCollector("w", settings=settings, quiet=True)
    loader = copy.copy(collector.watch(Loader()))

    assert list(loader) == list(Loader())
    assert loader.batch_size == 5
    collector.finish("failed")


def test_error_in_the_loop_is_the_users_and_sets_the_status(
    client: Client, settings: ClientSettings, workload: str
) -> None:
    def loop() -> None:
        with TorchCollector(workload, epochs=1, settings=settings, quiet=True) as collector:
            for number, _ in enumerate(collector.watch(Loader())):
                assert number < 2, "diverged"

    with pytest.raises(AssertionError, match="diverged"):
        loop()
    (run,) = client.runs.all(workload)

    assert run["status"] == "failed"
    assert run["progress"] == 0.5


class Watched:
    """A loop over the loader, by a clock that only training moves."""

    def __init__(self, workload: str, settings: ClientSettings) -> None:
        self.seconds = 0.0
        options: RunOptions = {"dataset_size": 20, "settings": settings, "quiet": True}
        self.recorder = Recorder(workload, options, clock=lambda: self.seconds)
        self.loader = WatchedLoader(Loader(), self.recorder, 1)

    def train(self) -> None:
        self.seconds += 1


@pytest.mark.parametrize(("steps", "epochs"), [(3, 0.75), (4, 1), (6, 1.5), (11, 2.75)])
def test_loop_that_ends_after_so_many_steps_tells_parts_of_passes(
    steps: int, epochs: float, client: Client, settings: ClientSettings, workload: str
) -> None:
    watched = Watched(workload, settings)
    left = steps
    while left:
        for _ in watched.loader:
            watched.train()
            left -= 1
            if not left:
                break
    watched.recorder.finish()
    (run,) = client.runs.all(workload)

    assert run["work"] == {"dataset_size": 20, "batch_size": 5, "epochs": epochs}
    assert run["duration_seconds"] == run["phases"]["compute_seconds"] == steps


def test_batch_that_ended_the_loop_untrained_does_not_count(
    client: Client, settings: ClientSettings, workload: str
) -> None:
    watched = Watched(workload, settings)
    for number, _ in enumerate(watched.loader):
        if number == 3:
            break
        watched.train()
    watched.recorder.finish()
    (run,) = client.runs.all(workload)

    assert run["work"]["epochs"] == 0.75


def test_iterator_that_is_asked_by_hand_counts_its_last_batch(
    client: Client, settings: ClientSettings, workload: str
) -> None:
    watched = Watched(workload, settings)
    batches = iter(watched.loader)
    for _ in range(3):
        next(batches)
        watched.train()
    watched.seconds += 60  # evaluation
    watched.recorder.finish()
    (run,) = client.runs.all(workload)

    assert run["work"]["epochs"] == 0.75
    assert run["phases"]["compute_seconds"] == 3


def test_second_training_with_a_collector_is_told_to_make_its_own(
    client: Client, settings: ClientSettings, workload: str, caplog: pytest.LogCaptureFixture
) -> None:
    collector = TorchCollector(workload, settings=settings, quiet=True)
    for _ in range(2):
        list(collector.watch(Loader()))
        collector.finish()
        collector.finish()

    (complaint,) = (record.getMessage() for record in caplog.records)

    assert len(list(client.runs.all(workload))) == 1
    assert complaint.endswith("steps after its run had ended. Make a collector for each training")


def test_stream_without_length_is_counted(
    client: Client, settings: ClientSettings, workload: str
) -> None:
    class Stream:
        """Batches of nobody knows how many samples."""

        def __iter__(self) -> Iterator[list[int]]:
            yield from ([1, 2, 3], [4, 5, 6], [7])

    with TorchCollector(workload, settings=settings, quiet=True) as collector:
        loader = collector.watch(Stream())
        for _ in range(2):
            assert [len(batch) for batch in loader] == [3, 3, 1]
    (run,) = client.runs.all(workload)

    assert run["work"] == {"dataset_size": 7, "batch_size": 3, "epochs": 2}


def test_failed_loop_without_a_plan_tells_the_work_that_was_done(
    client: Client, settings: ClientSettings, workload: str
) -> None:
    watched = Watched(workload, settings)
    for _ in watched.loader:
        watched.train()
    for number, _ in enumerate(watched.loader):
        watched.train()
        if number == 2:
            break
    watched.recorder.finish("failed")
    (run,) = client.runs.all(workload)

    assert run["work"]["epochs"] == 1.5
    assert run["progress"] == 1


@pytest.mark.parametrize("model", [None, object(), Parallel()])
def test_model_that_tells_nothing_has_no_communication(model: object) -> None:
    assert communication_s(model, 10) is None


def test_error_of_the_loader_itself_reaches_the_user(settings: ClientSettings) -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise OSError("the disk is gone")

    collector = TorchCollector("w", settings=settings, quiet=True)

    with pytest.raises(OSError, match="disk is gone"):
        list(collector.watch(broken()))
    collector.finish("failed")
