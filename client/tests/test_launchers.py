"""What a launcher's task asks; `make launchers` tests it with SkyPilot itself."""

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from trainfare_client import TrainfareError
from trainfare_client.launchers.estimates import Estimate
from trainfare_client.launchers.tasks import Node, Resources, node_of, question_of

if TYPE_CHECKING:
    from trainfare_client.documents import WorkloadDetail

_WORKLOAD = cast(
    "WorkloadDetail",
    {
        "workload": "cnn",
        "parameters": {"layer-count": {"type": "number"}, "torch": {"type": "category"}},
    },
)


def _resources(**described: object) -> Resources:
    whole = {"accelerators": None, "instance_type": None, "use_spot": False, **described}
    return cast("Resources", SimpleNamespace(**whole))


@pytest.mark.parametrize(
    ("described", "workers", "configuration"),
    [
        (
            {"accelerators": {"H100": 4}},
            None,
            {"gpu_type": "H100", "nodes": 2, "workers": 8},
        ),
        (
            {"accelerators": {"T4": 0.5}, "use_spot": True},
            3,
            {"gpu_type": "T4", "nodes": 2, "workers": 3, "purchase": "spot"},
        ),
        ({"instance_type": "m6i"}, None, {"instance_type": "m6i", "nodes": 2, "workers": 2}),
        ({}, None, {"nodes": 2, "workers": 2}),
    ],
)
def test_nodes_are_asked_as_a_configuration(
    described: dict[str, object], workers: int | None, configuration: dict[str, Any]
) -> None:
    assert node_of(_resources(**described)).configuration(2, workers) == configuration


def test_part_of_an_accelerator_needs_the_number_of_workers() -> None:
    node = node_of(_resources(accelerators={"T4": 0.5}))

    with pytest.raises(TrainfareError, match=r"T4:0\.5 .* Set TRAINFARE_WORKERS"):
        node.configuration(1, None)


def test_environment_describes_the_work_by_the_variables_of_a_profile() -> None:
    environment = {
        "PATH": "/bin",
        "TRAINFARE_URL": "http://elsewhere",
        "TRAINFARE_WORKLOAD": "cnn",
        "TRAINFARE_DATASET_SIZE": "1e6",
        "TRAINFARE_WORKERS": "3",
        "TRAINFARE_PARAM_LAYER_COUNT": "50",
        "TRAINFARE_PARAM_TORCH": "2.10",
    }

    question, workers = question_of(environment, _WORKLOAD)

    assert workers == 3
    assert question == {
        "workload": "cnn",
        "work": {"dataset_size": 1e6},
        "parameters": {"layer-count": 50.0, "torch": "2.10"},
    }


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("TRAINFARE_EPOCHS", "ten", "TRAINFARE_EPOCHS 'ten' is not a number"),
        ("TRAINFARE_WORKERS", "1.5", "TRAINFARE_WORKERS 1.5 is not a whole number"),
        ("TRAINFARE_PARAM_LAYER_COUNT", "", "TRAINFARE_PARAM_LAYER_COUNT '' is not a number"),
        ("TRAINFARE_PARAM_WIDTH", "8", "no parameter TRAINFARE_PARAM_WIDTH. It has TRAINFARE_PA"),
    ],
)
def test_faulty_variables_are_named(variable: str, text: str, message: str) -> None:
    with pytest.raises(TrainfareError) as refused:
        question_of({variable: text}, _WORKLOAD)

    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("probability", "expected"), [(None, False), (0.5, False), (0.49, True), (0.0, True)]
)
def test_what_rather_runs_out_of_memory_than_fits(
    probability: float | None, *, expected: bool
) -> None:
    estimate = Estimate(Node("T4", 1, None), 0.2, 0.1, 0.4, "measured", probability)

    assert estimate.runs_out_of_memory is expected
    assert estimate.seconds == 1
