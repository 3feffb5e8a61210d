"""Runs and scenarios become the same columns, and what is absent everywhere is left out."""

from dataclasses import replace
from typing import Any

import numpy as np

from app.domain.configurations import Configuration, Scenario, Work
from app.domain.identifiers import RunId
from app.domain.runs import RunColumns
from app.services.tables.frames import hardware_descriptions, run_table, scenario_features
from tests.support.clock import FakeClock

FULL = Scenario(
    Configuration(gpu_type="T4", instance_type="g4dn.xlarge", nodes=2, workers=4),
    Work(dataset_size=1000.0, batch_size=64.0, epochs=3.0),
    {"precision": "fp16", "depth": 50},
)


def columns(clock: FakeClock) -> RunColumns:
    return RunColumns(
        run_ids=[RunId("run_1"), RunId("run_2")],
        content_sha256=["a", "b"],
        created_at=[clock(), clock()],
        duration_seconds=[10.0, 20.0],
        gpu_type=["T4", None],
        instance_type=[None, None],
        nodes=[None, None],
        workers=[1, 2],
        dataset_size=[None, 1000.0],
        batch_size=[None, None],
        epochs=[None, None],
        parameters=[{"depth": 18}, {"precision": "fp16", "odd": "x"}],
        started_at=[None, None],
    )


def test_runs_become_the_columns_that_hold_something(clock: FakeClock) -> None:
    table = run_table(columns(clock))

    numeric, categorical = table.features.numeric, table.features.categorical
    assert set(numeric) == {"workers", "dataset_size", "param.depth"}
    assert numeric["workers"].tolist() == [1.0, 2.0]
    assert np.isnan(numeric["dataset_size"][0])
    assert np.isnan(numeric["param.depth"][1])
    assert {name: list(levels) for name, levels in categorical.items()} == {
        "gpu_type": ["T4", None],
        "param.odd": [None, "x"],
        "param.precision": [None, "fp16"],
    }
    assert table.duration_seconds.tolist() == [10.0, 20.0]
    assert table.run_ids == ["run_1", "run_2"]


def test_no_runs_become_an_empty_table(clock: FakeClock) -> None:
    empty: dict[str, list[Any]] = {name: [] for name in RunColumns.__dataclass_fields__}

    table = run_table(replace(columns(clock), **empty))

    assert table.n_runs == 0
    assert not table.features.numeric


def test_runs_stored_before_their_type_was_known_go_with_those_after(clock: FakeClock) -> None:
    stored = replace(columns(clock), gpu_type=["tpu v3", "TPU-v3"])

    levels = run_table(stored).features.categorical["gpu_type"]

    assert list(levels) == ["TPU-v3", "TPU-v3"]


def test_parameter_that_is_text_somewhere_is_a_category(clock: FakeClock) -> None:
    mixed = replace(columns(clock), parameters=[{"depth": 18}, {"depth": "deep"}])

    features = run_table(mixed).features

    assert features.categorical["param.depth"] == ["18", "deep"]


def test_one_scenario_and_many_have_the_same_columns() -> None:
    single = scenario_features([FULL])
    double = scenario_features([FULL, FULL])

    assert single.n_rows == 1
    assert {name: values.tolist() * 2 for name, values in single.numeric.items()} == {
        name: values.tolist() for name, values in double.numeric.items()
    }
    assert {name: list(levels) * 2 for name, levels in single.categorical.items()} == {
        name: list(levels) for name, levels in double.categorical.items()
    }
    assert set(single.numeric) == {
        "workers",
        "nodes",
        "dataset_size",
        "batch_size",
        "epochs",
        "param.depth",
    }


def test_bare_scenario_has_its_workers_only() -> None:
    single, none = scenario_features([Scenario()]), scenario_features([])

    assert {name: values.tolist() for name, values in single.numeric.items()} == {"workers": [1.0]}
    assert not single.categorical
    assert none.n_rows == 0


def test_every_data_sheet_describes_its_hardware() -> None:
    sheets = hardware_descriptions()

    assert sheets["T4"].memory_gib == 16.0
    assert all(sheet.fp32_tflops > 0 for sheet in sheets.values())


def test_name_of_several_boards_has_their_mean_rates_and_no_memory() -> None:
    sheets = hardware_descriptions()

    assert sheets["V100-SXM2"].tensor_tflops == sheets["V100-16GB"].tensor_tflops
    assert sheets["V100"].memory_gib is None
    low, high = (sheets[name].memory_bandwidth_gb_s for name in ("A100-40GB", "A100-80GB"))
    assert low < sheets["A100"].memory_bandwidth_gb_s < high


def test_board_of_another_memory_has_the_rates_of_its_chip() -> None:
    sheets = hardware_descriptions(["H100-64GB", "A100-64GB", "A100-20GB", "T4", None])

    assert sheets["H100-64GB"] == replace(sheets["H100"], memory_gib=64.0)
    assert sheets["A100-64GB"] == replace(sheets["A100"], memory_gib=64.0)
    assert sheets.keys() - hardware_descriptions().keys() == {"H100-64GB", "A100-64GB"}
