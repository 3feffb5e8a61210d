"""Counts what a training processed: samples, and whole passes over its data set."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Passes:
    """The samples of one run, and which of them belong to whole passes.

    A loop may leave a pass early, after a limit of steps in total or of batches per epoch, and a
    data set may not know its length. Counting finds both.

    Attributes
    ----------
    samples
        Samples of all workers so far.
    whole
        Passes that reached the end of the data.
    is_counted
        Whether passes are counted at all: a loader is watched.

    Examples
    --------
    >>> passes = Passes()
    >>> for batches in (8, 8, 4):
    ...     passes.begin()
    ...     passes.samples += 32 * batches
    ...     if batches == 8:
    ...         passes.end()
    >>> passes.epochs(256), passes.dataset_size()
    (2.5, 256.0)
    """

    samples: float = 0.0
    whole: int = 0
    is_counted: bool = False
    _whole_samples: float = 0.0
    _begun_at: float = 0.0

    def begin(self) -> None:
        """Start a pass."""
        self.is_counted = True
        self._begun_at = self.samples

    def end(self) -> None:
        """Count the latest pass as a whole one."""
        self.whole += 1
        self._whole_samples += self.samples - self._begun_at

    def dataset_size(self) -> float | None:
        """Return the samples of one pass; if none was whole, all samples count as one pass."""
        if not self.is_counted or not self.samples:
            return None
        return self._whole_samples / self.whole if self._whole_samples else self.samples

    def epochs(self, dataset_size: float | None) -> float | None:
        """Return the number of passes over the data; None if unknown.

        Partial passes are measured against whole ones, which a loader may make shorter than the
        data set (`drop_last`) or longer (so that all workers get the same number of samples).
        """
        if self._whole_samples:
            rest = self.samples - self._whole_samples
            return self.whole + rest * self.whole / self._whole_samples
        if self.whole:
            return float(self.whole)
        return self.samples / dataset_size if dataset_size and self.samples else None
