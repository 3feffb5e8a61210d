"""Flat fields of commands: lists and quotes as in a what-if, and texts that stay what they are."""

from pathlib import Path
from typing import Any

import pytest

from app.cli.failures import UsageError
from app.cli.fields import recommendation_request, split_fields, value_of, values_of
from app.cli.profiling.requests import scenario_from
from tests.support.terminal import Terminal

pytestmark = pytest.mark.lengthy


@pytest.mark.parametrize(
    ("name", "text", "values"),
    [
        ("workers", "1,,2, 4 ,2", [1, 2, 4]),
        ("gpu_type", "4090,T4", ["4090", "T4"]),
        ("region", "1", ["1"]),
        ("param.layout", '"a,b",c,"d ""e"""', ["a,b", "c", 'd "e"']),
        ("param.seed", "018,1_8,0,0.5,-1", ["018", "1_8", "0", "0.5", "-1"]),
    ],
)
def test_list_is_read_as_a_what_ifs(name: str, text: str, values: list[object]) -> None:
    assert values_of(name, text) == values


@pytest.mark.parametrize("text", [",", '""', "fp32,fp16"])
def test_one_value_is_needed_where_one_is_taken(text: str) -> None:
    with pytest.raises(UsageError):
        value_of("param.precision", text)
    with pytest.raises(UsageError):
        recommendation_request("w", {"param.precision": text})
    with pytest.raises(UsageError):
        scenario_from({"param.precision": text})


def test_the_framework_is_a_parameter_by_the_name_of_its_column() -> None:
    given = split_fields(["framework=torch,jax", "workers=4"])

    assert given == {"param.framework": "torch,jax", "workers": "4"}
    assert recommendation_request("w", split_fields(["framework=2"]))["parameters"] == {
        "framework": "2"
    }
    with pytest.raises(UsageError, match="framework is given twice"):
        split_fields(["framework=torch", "param.framework=jax"])


@pytest.mark.parametrize(
    ("is_grid", "remedy"),
    [(True, "A comma makes a grid: workers=8,16."), (False, "State one of them.")],
)
def test_commas_are_advised_where_they_are_allowed(*, is_grid: bool, remedy: str) -> None:
    with pytest.raises(UsageError) as refusal:
        split_fields(["workers=8", "workers=16"], is_grid=is_grid)

    assert refusal.value.remedy == remedy


def test_parameters_of_a_list_are_numbers_if_all_are() -> None:
    assert values_of("param.torch", "1.9,1.10") == [1.9, 1.1]
    assert values_of("param.torch", "1.9,1.10,1.11.0") == ["1.9", "1.10", "1.11.0"]
    assert values_of("param.torch", "1.10", as_text=True) == ["1.10"]


def test_the_service_tells_which_parameters_are_numbers() -> None:
    given = {"param.torch": "1.10", "param.layout": '"a,b"', "epochs": "2", "gpu_type": "4090"}

    body = recommendation_request("w", given)

    assert body["parameters"] == {"torch": "1.10", "layout": "a,b"}
    assert body["work"] == {"epochs": 2}
    assert body["search"] == {"gpu_types": ["4090"]}
    assert scenario_from({"gpu_type": "4090", "workers": "4"})["configuration"] == {
        "gpu_type": "4090", "workers": 4
    }  # fmt: skip


def test_a_value_in_quotes_and_a_list_of_one_ask_for_one_forecast(
    terminal: Terminal, tmp_path: Path, service_url: str
) -> None:
    terminal.set(url=service_url)
    file = tmp_path / "layouts.csv"
    file.write_text(
        "workload,workers,param.layout,param.torch,duration_seconds\n"
        + "".join(
            f'layouts,{workers},"{layout}",{torch},{base / workers + more}\n'
            for workers in (1, 2, 4)
            for layout, base in (("a,b", 40), ("c", 80))
            for torch, more in (("1.1.0", 0), ("1.10", 200))
        )
    )
    assert terminal.type("upload", file).exit_code == 0
    assert terminal.type("fit", "layouts", "--time-budget", 5).exit_code == 0
    arguments = ("layouts", 'param.layout="a,b"', "param.torch=1.10")

    sentences = terminal.type("forecast", *arguments, "workers=2,")
    document: Any = terminal.type("forecast", *arguments, "workers=2,", "--json").document
    grid: Any = terminal.type("forecast", *arguments, "workers=2,4", "--json").document
    result = terminal.type("recommend", *arguments, "workers=2,4", "price_per_hour=1", "--json")

    assert sentences.exit_code == 0
    assert "param.layout a,b, param.torch 1.10:" in sentences.out
    assert document["parameters"] == {"layout": "a,b", "torch": "1.10"}
    assert [each["parameters"] for each in grid["forecasts"]] == [document["parameters"]] * 2
    ranked = [each["forecast"] for each in result.document["ranked"]]
    assert {each["basis"] for each in ranked} == {"measured"}


@pytest.mark.parametrize("command", ["forecast", "recommend"])
@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["--workers", "8"], "workers=VALUE"),
        (["--gpu-type=A100"], "gpu_type=VALUE"),
        (["--batch_size", "64"], "batch_size=VALUE"),
        (["--param.warm-up", "3"], "param.warm-up=VALUE"),
    ],
)
def test_field_that_is_written_as_an_option_is_explained(
    terminal: Terminal, command: str, arguments: list[str], field: str
) -> None:
    ended = terminal.type(command, "resnet", *arguments)

    assert ended.exit_code == 2
    assert field in ended.err


@pytest.mark.parametrize("arguments", [["forecast", "w", "--jsn"], ["upload", "--workers", "8"]])
def test_other_unknown_options_are_told_as_ever(terminal: Terminal, arguments: list[str]) -> None:
    ended = terminal.type(*arguments)

    assert ended.exit_code == 2
    assert "No such option" in ended.err
