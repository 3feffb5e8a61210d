"""What runs of one number of epochs say of another: passes over the data take equally long."""

from dataclasses import dataclass, replace

import numpy as np

from models.features.encoder import Encoder
from models.features.layout import Layout
from models.members.mixture import Mixture
from models.tables import FloatArray

SURE = 0.1
"""Factor on the deviations of exponents of epochs that never varied, and on their part of kernels.

An epoch is as long as the one before: what else a power law could mean by its exponent, a start-up
that happens once, is told by `Epochs`."""

START_UP_SD = 0.2
"""Log standard deviation of what many epochs take, by what one takes: the start-up is in the one.

As a share of a run that was measured; more epochs come the nearer to it the more they are."""

_MOST = 20.0
"""Log ratio of epochs beyond which a reading changes no more: powers of it stay numbers."""


def with_sure_epochs(layout: Layout, X: FloatArray) -> Layout:
    """Return the layout with exponents of the epochs that are sure, where they never varied.

    Examples
    --------
    >>> layout = Layout(("workers", "epochs"), (), ())
    >>> with_sure_epochs(layout, np.array([[0.0, 1.1, 1.0], [0.7, 1.1, 0.0]])).relevances
    (1.0, 0.1)
    >>> with_sure_epochs(layout, np.array([[0.0, 1.1, 1.0], [0.7, 1.8, 0.0]])).relevances
    (1.0, 1.0)
    """
    if "epochs" not in layout.roles:
        return layout
    place = layout.roles.index("epochs")
    if np.ptp(X[:, place]) > 0:
        return layout
    factors = list(layout.relevances)
    factors[place] = SURE
    return replace(layout, relevance=tuple(factors))


def start_up(excess: FloatArray) -> FloatArray:
    """Return the deviation of the log duration so many log epochs away from the measured ones.

    Examples
    --------
    >>> start_up(np.log([1.0, 2.0, 100.0])).round(3).tolist()
    [0.0, 0.1, 0.198]
    """
    return np.asarray(-START_UP_SD * np.expm1(-excess), dtype=np.float64)


def log_growth(shares: FloatArray, exponents: FloatArray, log_factor: FloatArray) -> FloatArray:
    """Return how much longer durations are if their terms grow as powers of a factor.

    This is ``log sum_k p_k f^(x_k)`` for each law and choice of exponents, shape (n, n_choices,
    n_laws).

    Parameters
    ----------
    shares
        p, shape (n, n_laws, n_terms).
    exponents
        x, shape (n_choices, n_laws, n_terms).
    log_factor
        That of f for each row, shape (n,).

    Examples
    --------
    >>> shares, exponents = np.array([[[0.5, 0.5]]]), np.array([[[1.0, 0.0]], [[1.0, 1.0]]])
    >>> np.exp(log_growth(shares, exponents, np.log([3.0]))).round(9).tolist()
    [[[2.0], [3.0]]]
    """
    grown = shares[:, None] * np.exp(exponents * log_factor[:, None, None, None])
    return np.asarray(np.log(np.add.reduce(grown, axis=3)), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Epochs:
    """What is open of questions about more or fewer epochs than were measured.

    Where all runs had one number of epochs, a part of the duration that the data do not make longer
    may be of the run (a start-up) or of every epoch (validation, a checkpoint). With p_k the shares
    of the terms in the answer, e_k and w_k <= 1 their exponents of epochs and data, and r the
    epochs asked over those measured, the answer is to be multiplied by ``sum_k p_k r^(w_k - e_k)``
    if more epochs are like more data, and by ``sum_k p_k r^(1 - e_k)`` if they are as many such
    runs. Each is half of what is believed. Besides, the runs may not show a start-up.

    Parameters
    ----------
    feature, place
        Where the epochs stand among the features and among the columns of encoded rows.
    data_place
        Where the size of the data set stands there; that of the epochs where runs tell none.
    is_one
        Whether all runs had one number of epochs.
    """

    feature: int
    place: int
    data_place: int
    is_one: bool

    @classmethod
    def of(cls, encoder: Encoder) -> "Epochs | None":
        """Return where a fit has them, None if its runs tell none."""
        used = [feature for feature in encoder.numeric if feature.used]
        places = {feature.role: place for place, feature in enumerate(used)}
        place = places.get("epochs")
        if place is None:
            return None
        feature = used[place]
        return cls(
            encoder.numeric.index(feature),
            place,
            places.get("dataset_size", place),
            is_one=feature.low == feature.high,
        )

    def readings(self, X: FloatArray, mixture: Mixture, shares: FloatArray) -> FloatArray:
        """Return the logs of both factors of answers, shape (n, 2).

        Parameters
        ----------
        X
            Encoded questions, shape (n, n_columns).
        mixture, shares
            What answers them, and the shares of terms that it found; see `Evaluation`.
        """
        more = np.minimum(np.maximum(X[:, self.place], -_MOST), _MOST)
        own, of_data = mixture.exponents(self.place), mixture.exponents(self.data_place)
        exponents = np.array([np.minimum(of_data, 1.0) - own, 1.0 - own])
        return log_growth(shares, exponents, more) @ mixture.law_weights
