"""The headers of answers as the OpenAPI document describes them."""

from typing import Any, Final

_TEXT: Final = {"type": "string"}
HEADERS: Final[dict[str, dict[str, Any]]] = {
    "Idempotent-Replayed": {
        "description": "`true` if this is the answer to an earlier request with the same key",
        "schema": _TEXT,
    },
    "Location": {"description": "the path of what was created or is active", "schema": _TEXT},
    "Next-Page-Token": {
        "description": "of a CSV page: the `page_token` of the next one; absent on the last",
        "schema": _TEXT,
    },
    "Preference-Applied": {"description": "the part of `Prefer` that was kept", "schema": _TEXT},
    "RateLimit": {
        "description": "requests that are left and seconds until the window ends, if limited",
        "schema": _TEXT,
    },
    "RateLimit-Policy": {"description": "the limit and its window in seconds", "schema": _TEXT},
    "Retry-After": {
        "description": "seconds to wait before the next request",
        "schema": {"type": "integer"},
    },
    "Trainfare-Verdict": {"description": "the `verdict` of the report", "schema": _TEXT},
    "Vary": {"description": "`Accept`, on which this answer depends", "schema": _TEXT},
    "WWW-Authenticate": {"description": "how to authenticate: `Bearer`", "schema": _TEXT},
    "X-Request-ID": {"description": "the id that the service's log has, too", "schema": _TEXT},
}
"""By name; each header is present where its description applies."""


def headed(*names: str) -> dict[str, Any]:
    """Return the part of a response's description that refers to headers."""
    return {"headers": {name: {"$ref": f"#/components/headers/{name}"} for name in names}}


def common_headers(
    path: str, method: str, status: str, *, has_choice: bool = False
) -> dict[str, Any]:
    """Return what all routes or the layers around them add to an answer with this status.

    Parameters
    ----------
    has_choice
        Whether the answer comes in one of several media types.
    """
    names = ["X-Request-ID"]
    is_success, is_post = status < "3", method == "post"
    if path.startswith("/v1/") and (is_success or status == "429"):
        names += ["RateLimit", "RateLimit-Policy"]
    if has_choice and method == "get":
        names.append("Vary")
    if is_post and is_success:
        names.append("Idempotent-Replayed")
    if status in {"429", "503"} or (is_post and status == "409"):
        names.append("Retry-After")
    if status == "401":
        names.append("WWW-Authenticate")
    headers: dict[str, Any] = headed(*names)["headers"]
    return headers
