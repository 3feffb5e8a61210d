"""Traces statements: a span for each, as a child of its cause."""

from typing import Any, Final

import sqlalchemy as sa
from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer
from sqlalchemy import event

_MAX_TEXT: Final = 1000
_SPAN: Final = "trainfare_span"


def is_traced() -> bool:
    """Whether the current work has a trace: a request, or a fit."""
    return trace.get_current_span().get_span_context().is_valid


def current_trace_parent() -> str | None:
    """Return the current span as a W3C `traceparent`, None without one."""
    span = trace.get_current_span().get_span_context()
    if not span.is_valid:
        return None
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"


def trace_statements(engine: sa.Engine, tracer: Tracer) -> None:
    """Open a span for each statement of an engine, without its bound values."""

    @event.listens_for(engine, "before_cursor_execute")
    def _begin(
        _connection: object, _cursor: object, statement: str, _values: object, context: Any, *_: Any
    ) -> None:
        if context is None or not is_traced():
            return
        span = tracer.start_span(
            statement.split(None, 1)[0].upper(),
            kind=SpanKind.CLIENT,
            attributes={
                "db.system.name": engine.dialect.name,
                "db.query.text": statement[:_MAX_TEXT],
            },
        )
        setattr(context, _SPAN, span)

    @event.listens_for(engine, "after_cursor_execute")
    def _end(
        _connection: object, _cursor: object, _text: object, _values: object, context: Any, *_: Any
    ) -> None:
        _close(context, None)

    @event.listens_for(engine, "handle_error")
    def _fail(error: sa.ExceptionContext) -> None:
        _close(error.execution_context, type(error.original_exception).__name__)


def _close(context: object, failure: str | None) -> None:
    span: Span | None = getattr(context, _SPAN, None)
    if span is None:
        return
    if failure is not None:
        span.set_status(Status(StatusCode.ERROR, failure))
    span.end()
