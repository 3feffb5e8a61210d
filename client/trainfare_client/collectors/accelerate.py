"""An Accelerate tracker that records what lies between `init_trackers` and `end_training`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from accelerate.tracking import GeneralTracker

from trainfare_client.collectors.recording import Recorder
from trainfare_client.collectors.surroundings import Place, read_place

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from trainfare_client.collectors.recording import RunOptions

_KNOWN: Final = ("dataset_size", "batch_size", "epochs")


class TrainfareTracker(GeneralTracker):
    """Records a run: `Accelerator(log_with=TrainfareTracker("cnn"))`.

    Each step of the optimizer counts as a step (of several optimizers, those of the first);
    without any, each `accelerator.log` does. `dataset_size`, `batch_size` (global) and `epochs`
    are taken from the configuration that `init_trackers` gets, where they stand there.
    """

    name = "trainfare"
    requires_logging_directory = False
    main_process_only = True

    def __init__(self, workload: str, **options: Unpack[RunOptions]) -> None:
        super().__init__()
        self._workload = workload
        self._options = options
        self._recorder: Recorder | None = None
        self._optimizer: Any = None
        self._hook: Any = None

    @property
    def tracker(self) -> Recorder | None:
        """The measurement under way."""
        return self._recorder

    def start(self) -> None:
        """Begin a run."""
        from accelerate import PartialState

        state = PartialState()
        place = Place(state.process_index, state.num_processes, read_place().nodes)
        self._recorder = Recorder(self._workload, self._options, place=place)
        with self._recorder.guard:
            from torch.optim.optimizer import register_optimizer_step_post_hook

            self._hook = register_optimizer_step_post_hook(self._stepped)

    def _stepped(self, optimizer: Any, *call: Any) -> None:
        if self._recorder is not None:
            with self._recorder.guard:
                self._optimizer = self._optimizer or optimizer
                if optimizer is self._optimizer:
                    self._recorder.step_ended()

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        """Take the sizes that the configuration names; the set-up is over."""
        if self._recorder is not None:
            with self._recorder.guard:
                self._recorder.know(**{name: values.get(name) for name in _KNOWN})
                self._recorder.setup_is_over()

    def log(self, values: dict[str, Any], step: int | None = None, **kwargs: Any) -> None:
        """Count a step where no optimizer tells of them."""
        if self._recorder is not None and self._optimizer is None:
            with self._recorder.guard:
                self._recorder.step_ended()

    def finish(self) -> None:
        """Deliver the run."""
        if self._recorder is not None:
            with self._recorder.guard:
                self._hook.remove()
            self._recorder.finish()
