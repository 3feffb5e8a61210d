"""The format of log lines: one event each, with identifiers as fields."""

import logging
import logging.config
import os
import re
from datetime import UTC, datetime
from typing import Any, Final

import orjson
from opentelemetry import trace
from typing_extensions import override

from app.domain import log_fields
from app.settings import Settings, unknown_variables

_logger = logging.getLogger(__name__)
_REQUEST_PARTS: Final = 5
"""Arguments of uvicorn's access log line: client, method, path with query, version, status."""

_SECRET: Final = re.compile(r"(?<=tf_)([0-9a-f]+)_[0-9a-f]+")
_MAX_PATH: Final = 2_000
_MAX_CLIENT: Final = 100
"""Longer than any address with its port."""

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "color_message", "taskName"}


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    members = vars(record).items()
    # Ray adds an attribute of its own to every record.
    extra = {name: v for name, v in members if name not in _STANDARD and not name.startswith("_")}
    return {**log_fields.current.get(), **_trace(), **extra}


def _trace() -> dict[str, str]:
    span = trace.get_current_span().get_span_context()
    return {"trace_id": f"{span.trace_id:032x}"} if span.is_valid else {}


def _instant(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class RequestFilter(logging.Filter):
    """Removes the query from access log lines, and adds method, path and status as fields.

    A query may contain what should have been a header: a key, a token. A key in the path is reduced
    to its public part. Paths are cut beyond the length of any resource's path. The client, which a
    proxy may pass on as it came, is cut and escaped too.
    """

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple) and len(record.args) == _REQUEST_PARTS:
            client, method, target, http_version, status = record.args
            path = _SECRET.sub(r"\1_...", str(target).partition("?")[0][:_MAX_PATH])
            shown_client = _shown(str(client)[:_MAX_CLIENT])
            record.args = (shown_client, method, path, http_version, status)
            record.__dict__.update(method=method, path=path, status=status)
        return True


class JsonFormatter(logging.Formatter):
    """Formats each record as one line of JSON."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        event: dict[str, Any] = {
            "at": _instant(record),
            "level": record.levelname,
            "logger": record.name,
            "event": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        try:
            return orjson.dumps(event, default=str).decode()
        except orjson.JSONEncodeError:
            readable = {name: _encodable(value) for name, value in event.items()}
            return orjson.dumps(readable).decode()


def _encodable(value: object) -> str:
    """Return a value as text that UTF-8 has codes for: names of files and variables may be any."""
    return str(value).encode(errors="backslashreplace").decode()


def _shown(value: object) -> str:
    """Return a value for a log line with control characters escaped."""
    text = str(value)
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else repr(character)[1:-1] for character in text
    )


class TextFormatter(logging.Formatter):
    """Formats a record for people: instant, level, event, then `name=value` fields."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={_shown(value)}" for name, value in _fields(record).items())
        line = f"{_instant(record)} {record.levelname:<7} {record.getMessage()}{fields}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def log_config(settings: Settings) -> dict[str, Any]:
    """Return the `logging.config.dictConfig` dictionary of a service process."""
    formatter = JsonFormatter if settings.log_format == "json" else TextFormatter
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"request": {"()": RequestFilter}},
        "formatters": {"line": {"()": formatter}},
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "formatter": "line",
                "stream": "ext://sys.stderr",
            }
        },
        "root": {"handlers": ["stderr"], "level": settings.log_level},
        # At INFO these would log every step.
        "loggers": {
            "uvicorn": {"level": "WARNING"},
            # The access log, if enabled.
            "uvicorn.access": {"level": "INFO", "filters": ["request"]},
            "alembic": {"level": "WARNING"},
            "httpx2": {"level": "WARNING"},
            "stamina": {"level": "WARNING"},
        },
    }


def configure_logging(settings: Settings) -> None:
    """Set up this process's logging from its settings, and warn of unknown variables."""
    logging.config.dictConfig(log_config(settings))
    for name, nearest in unknown_variables(os.environ).items():
        suggestion = {} if nearest is None else {"nearest": nearest}
        _logger.warning("no setting has this name", extra={"variable": name, **suggestion})
