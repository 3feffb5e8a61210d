"""The scikit-learn wrapper, whose framework the service's environment holds too."""

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import Ridge
from trainfare_client import Client, ClientSettings
from trainfare_client.collectors.sklearn import Recorded, _cores


def test_clone_of_the_wrapper_records_its_own_fits(
    client: Client, settings: ClientSettings, workload: str
) -> None:
    X = np.arange(12.0).reshape(6, 2)
    options = {"settings": settings, "quiet": True}
    wrapped = Recorded(Ridge(alpha=0.5), workload, ["alpha", "solver"], options)  # type: ignore[arg-type] # as in a script

    fitted = clone(wrapped).fit(X, X.sum(axis=1))
    (run,) = client.runs.all(workload)

    assert not hasattr(wrapped, "coef_")
    assert fitted.coef_.shape == (2,)
    assert run["parameters"] == {"alpha": 0.5, "solver": "auto", "cores": 1}


def test_sparse_matrices_and_numbers_of_numpy_are_told_as_they_are(
    client: Client, settings: ClientSettings, workload: str
) -> None:
    X = sparse.csr_matrix(np.arange(12.0).reshape(6, 2))
    options = {"settings": settings, "quiet": True}
    ridge = Ridge(max_iter=np.int64(7))

    Recorded(ridge, workload, ["max_iter"], options).fit(X, np.arange(6.0))  # type: ignore[arg-type] # as in a script
    (run,) = client.runs.all(workload)

    assert run["work"]["dataset_size"] == 6
    assert run["parameters"] == {"max_iter": 7, "cores": 1}


def test_cores_are_those_that_joblib_takes() -> None:
    assert _cores(None) == 1
    assert _cores(3) == 3
    assert _cores(-1) >= 1
