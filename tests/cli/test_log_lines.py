"""Log lines for people and for machines."""

import json
import logging
import sys

import pytest

from app.cli.logs import JsonFormatter, RequestFilter, TextFormatter, log_config
from app.settings import Settings

pytestmark = pytest.mark.lengthy


def _record(**fields: object) -> logging.LogRecord:
    record = logging.makeLogRecord({"msg": "fit %s", "args": ("done",), "levelname": "INFO"})
    vars(record).update(fields)
    return record


def _failed_record() -> logging.LogRecord:
    try:
        raise ValueError("broken")  # noqa: TRY301 - a log record needs a raised error
    except ValueError:
        return _record(exc_info=sys.exc_info())


def test_json_log_line_is_one_object_with_its_fields() -> None:
    line = JsonFormatter().format(_record(workload="resnet", run=3))

    event = json.loads(line)
    assert event["event"] == "fit done"
    assert (event["workload"], event["run"]) == ("resnet", 3)
    assert event["at"].endswith("Z")


@pytest.mark.parametrize(
    ("value", "shown"), [("TRAINFARE_F\udcfc", r"TRAINFARE_F\udcfc"), (1 << 64, f"{1 << 64}")]
)
def test_value_that_json_has_no_code_for_costs_no_log_line(value: object, shown: str) -> None:
    event = json.loads(JsonFormatter().format(_record(variable=value)))

    assert (event["event"], event["variable"]) == ("fit done", shown)


def test_text_log_line_shows_fields_behind_the_event() -> None:
    assert TextFormatter().format(_record(workload="resnet")).endswith("fit done workload=resnet")


def test_value_of_several_lines_ends_no_text_log_line() -> None:
    line = TextFormatter().format(_record(reason="moved\nto \x1b[31mhttp://é\u202e"))

    assert line.endswith(r"fit done reason=moved\nto \x1b[31mhttp://é\u202e")


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_log_line_of_an_error_has_its_stack(formatter: logging.Formatter) -> None:
    assert "ValueError: broken" in formatter.format(_failed_record())


@pytest.mark.parametrize(
    ("client", "shown"),
    [("::1:80", "::1:80"), ("a\x9b31m\x85", r"a\x9b31m\x85"), ("x" * 999, "x" * 100)],
)
def test_client_that_a_proxy_passes_on_is_shown_in_short(client: str, shown: str) -> None:
    record = logging.makeLogRecord(
        {
            "msg": '%s - "%s %s HTTP/%s" %d',
            "args": (client, "GET", "/v1/runs?key=tf_1", "1.1", 200),
            "levelname": "INFO",
        }
    )

    assert RequestFilter().filter(record)
    assert record.getMessage() == f'{shown} - "GET /v1/runs HTTP/1.1" 200'


def test_log_format_follows_the_settings() -> None:
    formatter = log_config(Settings(log_format="json"))["formatters"]["line"]["()"]

    assert formatter is JsonFormatter
