"""Rows as the encoder gives them to regressors, with their distances from the measured range."""

from dataclasses import dataclass

from models.tables import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Readings:
    """Second readings of questions that vary separately what varied together in all runs.

    Parameters
    ----------
    X
        The columns of `Encoded.X` in the second reading, NaN where unchanged; shape (n, n_columns).
    variance
        Variance of the log duration besides that between the readings, shape (n,): a column's
        effect may exceed that of both together, or have the opposite sign.
    shift
        What physics adds to the log duration for more work than the kept column shows, shape (n,).
    names
        For each row, the columns whose effects cannot be separated.
    """

    X: FloatArray
    variance: FloatArray
    shift: FloatArray
    names: tuple[tuple[str, ...], ...]

    def take(self, rows: IntArray) -> "Readings":
        """Return some of the rows, in the given order."""
        names = tuple(self.names[row] for row in rows)
        return Readings(self.X[rows], self.variance[rows], self.shift[rows], names)


@dataclass(frozen=True, slots=True)
class Encoded:
    """Rows as regressors see them.

    Parameters
    ----------
    X
        Matrix in the form of `Layout`, shape (n, n_columns); codes of unseen and unspecified levels
        are negative, and features whose trends fade are damped beyond their measured ranges.
    distances
        Distance beyond the measured range in units of its width, shape (n, n_features), >= 0.
    excess
        The same in units of the transformed feature.
    missing
        True where a question leaves out what every run has and some have differently, shape
        (n, n_features).
    variance
        Variance of the log duration from effects that the runs could not identify, shape (n,).
    shift
        Their expectation by other workloads and physics, added to the log duration, shape (n,).
    codes
        Level codes of all categories, unused ones included, shape (n, n_categories).
    readings
        Second readings (`models.questions.companions`), None where there are none or they were not
        looked for.
    """

    X: FloatArray
    distances: FloatArray
    excess: FloatArray
    missing: BoolArray
    variance: FloatArray
    shift: FloatArray
    codes: IntArray
    readings: Readings | None = None

    def take(self, rows: IntArray) -> "Encoded":
        """Return some of the rows, in the given order."""
        readings = self.readings
        return Encoded(
            self.X[rows],
            self.distances[rows],
            self.excess[rows],
            self.missing[rows],
            self.variance[rows],
            self.shift[rows],
            self.codes[rows],
            None if readings is None else readings.take(rows),
        )

    def has_open_levels(self) -> bool:
        """Whether any level is unseen or unspecified."""
        if len(self.codes) == 1:
            return min(self.codes[0].tolist(), default=0) < 0
        return bool(self.codes.min(initial=0) < 0)
