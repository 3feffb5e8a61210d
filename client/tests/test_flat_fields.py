"""Flat fields: lists with commas, and values that have commas themselves."""

from trainfare_client.requests import flat_fields, get


def test_a_value_of_a_list_that_has_commas_stands_in_quotes() -> None:
    fields = flat_fields(
        configuration={"workers": [1, 2]}, parameters={"layout": ["a,b", "c", 'd,"e"']}
    )

    request = get("/v1/workloads/w/forecast", fields)

    assert list(request.params) == [
        ("workers", "1,2"),
        ("param.layout", '"a,b",c,"d,""e"""'),
    ]
