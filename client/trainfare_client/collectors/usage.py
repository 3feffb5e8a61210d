"""What a run uses of the GPUs that it trains on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfare_client.collectors.energy import EnergyMeter
from trainfare_client.collectors.hardware import PeakMemory, wait_for_gpu
from trainfare_client.collectors.outcomes import SUCCEEDED, status_of
from trainfare_client.requests import without_none

if TYPE_CHECKING:
    from trainfare_client.collectors.guarding import Guard


class Usage:
    """Peak memory and energy of one run; what a framework or driver cannot report is left out.

    Parameters
    ----------
    guard
        Keeps failures away from the training, and from the rest of the run's facts.
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._energy = EnergyMeter()
        self._memory: PeakMemory | None = None
        self._peak_bytes: int | None = None
        self._watts: float | None = None

    def begin(self) -> None:
        """Read what was held before the run, and count energy from now on."""
        with self._guard:
            self._memory = PeakMemory()
        self.setup_is_over()

    def setup_is_over(self) -> None:
        """Count energy from now on."""
        with self._guard:
            self._energy.begin()

    def status_of_steps(self) -> str:
        """Wait for the queued steps, and return how they ended: they may outlast the loop."""
        try:
            wait_for_gpu()
        except Exception as error:  # noqa: BLE001 - the framework's own, of any kind
            self._guard.complain(error)
            return status_of(error)
        return SUCCEEDED

    def end(self, *, is_now: bool) -> None:
        """Read what the run used until now; if it ended long before, its energy is unknown."""
        with self._guard:
            self._watts = self._energy.mean_watts() if is_now else None
        with self._guard:
            self._peak_bytes = None if self._memory is None else self._memory.of_run()

    def resources(self, duration_s: float, processes: int) -> dict[str, float]:
        """Return the `resources` of a run.

        The energy is the mean power of this process's GPUs times the duration and the number of
        processes that train together: all do the same on GPUs of the same kind.
        """
        joules = None if self._watts is None else self._watts * duration_s * processes
        return without_none(
            peak_gpu_memory_bytes=self._peak_bytes,
            energy_joules=None if joules is None else round(joules, 3),
        )
