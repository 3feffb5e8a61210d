"""The OpenAPI document, the API reference as a page, and the meaning of each problem."""

import base64
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import orjson
from fastapi import APIRouter, Response
from fastapi.responses import HTMLResponse

from app.api import problem_kinds
from app.api.dependencies import ServicesDep
from app.api.negotiation import JSON
from app.api.problem_kinds import KINDS, ProblemKind
from app.domain.errors import NotFoundError

if TYPE_CHECKING:
    from jinja2 import Environment

router = APIRouter(include_in_schema=False)
_TEMPLATES: Final = "templates"
_CODE: Final = re.compile("`([^`]+)`")
_OWN_MEANINGS: Final = {
    problem_kinds.INTERNAL.code: (
        "The service failed on this request; its log has the details under the request's id.",
        "Retry; if it fails again, report the X-Request-ID of the answer.",
    ),
    problem_kinds.METHOD_NOT_ALLOWED.code: (
        "The resource exists but does not support this method.",
        "Use a method that the Allow header names.",
    ),
    problem_kinds.MALFORMED_HTTP.code: (
        "What the connection sent is not an HTTP request.",
        "Send HTTP/1.1, without TLS unless a proxy in front of the service handles it.",
    ),
    problem_kinds.HEAD_TIMEOUT.code: (
        "The headers of a request did not arrive in time.",
        "Send the request again, whole and without delay.",
    ),
    problem_kinds.HEAD_TOO_LARGE.code: (
        "The headers of a request are larger than 64 KiB.",
        "Put large data into the body.",
    ),
}


@dataclass(frozen=True, slots=True)
class ProblemPage:
    """The documentation of one problem code."""

    kind: ProblemKind
    meanings: list[tuple[str, str]]


def _marked(text: str) -> str:
    """Return the HTML of a description with `code` in backticks."""
    return _CODE.sub(r"<code>\1</code>", escape(text))


def _breakable(name: str) -> str:
    """Return the HTML of a name that may break after an underscore."""
    return escape(name).replace("_", "_<wbr>")


@dataclass(frozen=True, slots=True)
class _Pages:
    """The templates, and the policy that forbids a browser to load anything else."""

    environment: "Environment"
    style: str

    @property
    def policy(self) -> str:
        digest = base64.b64encode(hashlib.sha256(self.style.encode()).digest()).decode()
        loaded = f"style-src 'sha256-{digest}'; img-src data:"
        return f"default-src 'none'; {loaded}; frame-ancestors 'none'"

    def render(self, template: str, **values: Any) -> bytes:
        text = self.environment.get_template(template).render(style=self.style, **values)
        return text.encode()

    def respond(self, page: bytes) -> HTMLResponse:
        return HTMLResponse(page, headers={"Content-Security-Policy": self.policy})

    def answer(self, template: str, **values: Any) -> HTMLResponse:
        return self.respond(self.render(template, **values))


@cache
def _pages() -> _Pages:
    # Imported late: a process that serves only programs shows no page.
    from jinja2 import Environment, PackageLoader  # noqa: PLC0415

    loader = PackageLoader("app.api", _TEMPLATES)
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(marked=_marked, breakable=_breakable)
    style = files("app.api").joinpath(_TEMPLATES, "plain.css").read_text(encoding="utf-8")
    return _Pages(environment, style)


def problem_pages() -> dict[str, ProblemPage]:
    """Return the documentation of each code: meaning and remedy of each of its errors."""
    pages = {kind.code: ProblemPage(kind, []) for kind in problem_kinds.all_kinds()}
    for error, kind in KINDS.items():
        meaning = (error.__doc__ or "").partition("\n")[0]
        pages[kind.code].meanings.append((meaning, error.remedy))
    for code, meaning_and_remedy in _OWN_MEANINGS.items():
        pages[code].meanings.append(meaning_and_remedy)
    return pages


@router.get("/problems")
async def list_problems() -> HTMLResponse:
    pages = sorted(problem_pages().values(), key=lambda page: (page.kind.status, page.kind.code))
    return _pages().answer("problems.html", pages=pages)


@router.get("/problems/{code}")
async def show_problem(code: str) -> HTMLResponse:
    page = problem_pages().get(code)
    if page is None:
        raise NotFoundError("problem code", code)
    return _pages().answer("problem.html", page=page)


def _document() -> dict[str, Any]:
    """Return the OpenAPI document of a service that requires keys."""
    document: dict[str, Any] = orjson.loads(files("app.api").joinpath("openapi.json").read_bytes())
    return document


@cache
def _encoded_document(*, requires_keys: bool) -> bytes:
    document = _document()
    if not requires_keys:
        document["security"].append({})
    return orjson.dumps(document)


@cache
def _reference() -> bytes:
    return _pages().render("reference.html", api=_document())


@router.get("/openapi.json")
async def show_document(services: ServicesDep) -> Response:
    document = _encoded_document(requires_keys=services.access.requires_keys)
    return Response(document, media_type=JSON)


@router.get("/docs")
async def show_reference() -> HTMLResponse:
    return _pages().respond(_reference())
