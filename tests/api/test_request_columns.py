"""Requests read in columns: what is read is what each request alone would be read as."""

from typing import Any

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from app.api.requests.columns import NotColumnsError
from app.api.requests.forecasts import read_alike, read_forecasts, read_together

pytestmark = pytest.mark.lengthy

counts = st.sampled_from([1, 8, 1_000_000, 8.0, "8", None, 0, 1.5, True, 10**30, "x"])
sizes = st.sampled_from([1, 2.5, "2.5", None, 1e18, 0, -1, 1e19, True, [1], float("inf")])
names = st.sampled_from(["T4", "A100 ", None, "", "x" * 101, "T4\n", 4, "ü"])
values: st.SearchStrategy[Any] = st.sampled_from(
    [1, 0.5, -0.0, "fp16", " fp16 ", " ", "1", True, None, "", {}, float("nan")]
)
MEMBERS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "configuration": {
        "workers": counts,
        "nodes": counts,
        "gpu_type": names,
        "purchase": st.sampled_from(["spot", None, "stolen"]),
        "gpus": counts,
    },
    "work": {"dataset_size": sizes, "batch_size": sizes, "epochs": sizes, "worck": sizes},
    "parameters": {"precision": values, "layers": values, "n" * 101: values},
    "": {
        "confidence": st.sampled_from([0.5, "0.8", 0, None]),
        "deadline_s": sizes,
        "budget": st.sampled_from([1, "2.50", None, -1, 0.1]),
        "workload": st.sampled_from(["a", "B", " c ", "a b", 3]),
        "record": st.booleans(),
        "regressor_version": counts,
        "ref": values,
        "pricing": st.just({"region": "r"}),
        "configuration": st.none(),
    },
}
DEFAULTS: dict[str, Any] = {
    "workload": "shared",
    "configuration": {"gpu_type": "T4"},
    "work": {"epochs": 3},
    "parameters": {"flag": True, "layers": 2},
    "pricing": {"price_per_hour": "3"},
}


@st.composite
def entries(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Return entries of one form, most of whose members are right."""
    form = {
        group: draw(st.lists(st.sampled_from(sorted(members)), unique=True, max_size=3))
        for group, members in MEMBERS.items()
    }
    made = []
    for _ in range(draw(st.integers(1, 3))):
        drawn = {
            group: {name: draw(MEMBERS[group][name]) for name in chosen}
            for group, chosen in form.items()
        }
        made.append({**{name: drawn[name] for name in drawn if name and drawn[name]}, **drawn[""]})
    return made


def completed(entry: dict[str, Any]) -> dict[str, Any]:
    merged = {**DEFAULTS, **entry}
    merged.pop("ref", None)
    for name, base in DEFAULTS.items():
        if isinstance(base, dict) and isinstance(entry.get(name), dict):
            merged[name] = {**base, **entry[name]}
    return merged


@given(entries())
def test_columns_are_read_as_each_request_alone(asked: list[dict[str, Any]]) -> None:
    whole = [completed(entry) for entry in asked]
    try:
        found = list(read_alike(whole[0], asked))
    except NotColumnsError:
        reject()

    assert found == read_forecasts(whole)
    assert [str(each) for each in found] == [str(each) for each in read_forecasts(whole)]


GOOD: list[dict[str, Any]] = [
    {"configuration": {"workers": 2}, "work": {"dataset_size": 10}, "parameters": {"layers": 1}},
    {"configuration": {"workers": 4}, "work": {"dataset_size": 1e6}, "parameters": {"layers": 2}},
]


def test_usual_entries_are_read_in_columns_and_share_equal_configurations() -> None:
    asked = [*GOOD, *GOOD]

    read = read_alike(completed(asked[0]), asked)

    assert list(read) == read_forecasts([completed(entry) for entry in asked])
    assert read[0].scenario.configuration is read[2].scenario.configuration
    assert read[1:3] == list(read)[1:3]
    assert read.scenarios[2:] == [each.scenario for each in read[2:]]


NUMBERS = st.sampled_from([1, 1.0, True, 2, 2.0, 0.0, -0.0])


@st.composite
def nearly_alike(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Return questions of one form and few values, many of which are equal but not the same."""
    work = draw(st.lists(st.sampled_from(["epochs", "batch_size"]), unique=True))
    parameters = draw(st.lists(st.sampled_from(["a", "b"]), unique=True))
    has_record = draw(st.booleans())
    return [
        {
            "workload": "w",
            "configuration": {"gpu_type": "T4", "workers": draw(st.sampled_from([1, 2]))},
            "work": {name: draw(NUMBERS) for name in work},
            "parameters": {name: draw(NUMBERS) for name in parameters},
            **({"record": draw(st.sampled_from([True, False, 1]))} if has_record else {}),
        }
        for _ in range(draw(st.integers(1, 3)))
    ]


@given(st.lists(nearly_alike(), min_size=1, max_size=4))
def test_what_forms_share_is_read_as_each_request_alone(groups: list[list[Any]]) -> None:
    for documents in groups:
        alone = read_forecasts(documents)

        together = list(read_together(documents))

        assert list(map(repr, together)) == list(map(repr, alone))


@pytest.mark.parametrize(
    "second",
    [
        {"work": {"dataset_size": 10}},
        {**GOOD[1], "ref": 3},
        {**GOOD[1], "work": 4},
        {**GOOD[1], "work": {"dataset_size": -1}},
        {**GOOD[1], "parameters": {"depth": 2}},
        {**GOOD[1], "configuration": {"workers": True}},
    ],
    ids=str,
)
def test_entries_that_differ_in_form_or_are_refused_are_left_to_the_checker(
    second: dict[str, Any],
) -> None:
    with pytest.raises(NotColumnsError):
        read_alike(completed(GOOD[0]), [GOOD[0], second])


def test_members_may_come_in_any_order_but_parameters_are_told_as_sent() -> None:
    first = {"work": {"dataset_size": 1, "epochs": 2}, "confidence": 0.8}
    second = {"confidence": 0.7, "work": {"epochs": 4, "dataset_size": 3}}

    found = list(read_alike(completed(first), [first, second]))

    assert found == read_forecasts([completed(first), completed(second)])
    with pytest.raises(NotColumnsError):
        read_alike(
            completed(first), [{"parameters": {"a": 1, "b": 2}}, {"parameters": {"b": 1, "a": 2}}]
        )
