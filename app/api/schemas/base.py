"""What all requests and responses share: unknown request fields are refused by name."""

from collections.abc import KeysView, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, get_args

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, model_validator
from pydantic_core import CoreSchema, PydanticCustomError

from app.domain.identifiers import Slug, parse_slug
from app.domain.pages import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE
from app.domain.spelling import nearest_field

SHOWN_CHARACTERS = 100
"""So much of a name that is not known is told."""
MAX_NAMED = 20
"""So many of an object's names that are not known are told."""


@cache
def _known_names(model: type[BaseModel]) -> KeysView[str]:
    return {info.alias or name: None for name, info in model.model_fields.items()}.keys()


@cache
def _known_places(model: type[BaseModel]) -> Mapping[str, str]:
    """Return where a name may stand: among a model's own fields, else in one of its objects."""
    places = {name: name for name in _known_names(model)}
    for name, info in model.model_fields.items():
        for inner in (info.annotation, *get_args(info.annotation)):
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                for leaf, place in _known_places(inner).items():
                    places.setdefault(leaf, f"{name}.{place}")
    return places


def hint_at(name: str, known: Sequence[str]) -> tuple[str, str]:
    """Return what a message says of a name that is not known, and the remedy."""
    return _hint(name, {each: each for each in known})


def _hint(name: str, places: Mapping[str, str]) -> tuple[str, str]:
    nearest = nearest_field(name, places)
    if nearest:
        return f"did you mean {places[nearest]!r}?", f"Use {places[nearest]!r}."
    known = [leaf for leaf, place in places.items() if leaf == place]
    remedy = "Leave it out."
    if "parameters" in known and name.isprintable():
        remedy = f"Leave it out; a parameter of the workload is 'parameters.{_shown(name)}'."
    return f"known: {', '.join(known)}.", remedy


def _shown(name: str) -> str:
    return name[:SHOWN_CHARACTERS]


class RequestModel(BaseModel):
    """A request body or a set of query parameters; strict about its names."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_fields(cls, data: Any) -> Any:
        if not isinstance(data, dict) or data.keys() <= _known_names(cls):
            return data
        known = _known_names(cls)
        unknown = [str(n) for n in data if n not in known and not cls.accepts_extra(str(n))]
        if unknown:
            # Defaults of a batch change the order of members, and are to change no answer.
            each = [cls._unknown(name) for name in sorted(unknown)[:MAX_NAMED]]
            message = "Unknown field {name}: {hint}"
            raise PydanticCustomError("unknown_field", message, {**each[0], "each": each})
        return data

    @classmethod
    def _unknown(cls, name: str) -> dict[str, Any]:
        hint, remedy = _hint(name, _known_places(cls))
        shown = _shown(name)
        return {"name": repr(shown), "hint": hint, "path": [shown], "remedy": remedy}

    @classmethod
    def accepts_extra(cls, name: str) -> bool:  # noqa: ARG003 - the hook's signature
        """Whether a field that is not declared belongs to a family such as `param.*`."""
        return False


def told_apart(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return what pydantic says of an object's unknown fields as one entry of each."""
    each = (entry.get("ctx") or {}).get("each", ())
    return [
        {**entry, "ctx": ctx, "msg": f"Unknown field {ctx['name']}: {ctx['hint']}"} for ctx in each
    ] or [entry]


@dataclass(frozen=True, slots=True)
class Refusal:
    """What an alternative of types says of a value that is none of them, for use in `Annotated`.

    Without it pydantic tells one fault for each type, under its own name of that type.
    """

    message: str
    remedy: str

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return the schema of the alternative with its one fault."""
        schema = handler(source)
        if schema["type"] != "union":
            message = f"{source} is no alternative of types."
            raise TypeError(message)
        return {
            **schema,
            "custom_error_type": "alternatives",
            "custom_error_message": self.message,
            "custom_error_context": {"remedy": self.remedy},
        }


class ResponseModel(BaseModel):
    """A response body; built from keyword arguments by the schema's own `of`."""

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="null", defer_build=True)


PageToken = Annotated[
    str | None,
    Field(max_length=200, description="`next_page_token` of the page before; default: the first"),
]


class PageQuery(RequestModel):
    """The query of every list."""

    page_size: Annotated[
        int, Field(ge=1, le=MAX_PAGE_SIZE, description="at most so many entries")
    ] = DEFAULT_PAGE_SIZE
    page_token: PageToken = None


def check_slug(text: str) -> Slug:
    """Return the case-folded workload id; for use in `AfterValidator`."""
    slug = parse_slug(text)
    if slug is None:
        raise PydanticCustomError(
            "slug",
            "{text} is not a workload id",
            {
                "text": repr(text[:120]),
                "remedy": "Use letters, digits, '.', '_' and '-' (1 to 100 characters, the first"
                " a letter or digit).",
            },
        )
    return slug
