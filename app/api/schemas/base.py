"""The base of all requests and responses: unknown request fields are refused by name."""

from collections.abc import KeysView, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Final, get_args

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, model_validator
from pydantic_core import CoreSchema, PydanticCustomError

from app.domain.identifiers import Slug, parse_slug
from app.domain.pages import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE
from app.domain.spelling import nearest_field

COMPONENTS: Final = "#/components/schemas/"
"""Prefix of references to models in the OpenAPI document."""
SHOWN_CHARACTERS = 100
"""Characters of an unknown name that an error shows at most."""
MAX_NAMED = 20
"""Unknown names of one object that an error lists at most."""


@cache
def names_of(model: type[BaseModel]) -> KeysView[str]:
    """Return the names that a model has on the wire."""
    return {info.alias or name: None for name, info in model.model_fields.items()}.keys()


@cache
def _known_paths(model: type[BaseModel]) -> Mapping[str, str]:
    """Return the path of each valid name: a field of the model itself, else of a nested model."""
    paths = {name: name for name in names_of(model)}
    for name, info in model.model_fields.items():
        for inner in (info.annotation, *get_args(info.annotation)):
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                for leaf, path in _known_paths(inner).items():
                    paths.setdefault(leaf, f"{name}.{path}")
    return paths


def hint_at(name: str, known: Sequence[str]) -> tuple[str, str]:
    """Return the hint and the remedy for an unknown name."""
    return _hint(name, {field: field for field in known})


def _hint(name: str, paths: Mapping[str, str]) -> tuple[str, str]:
    nearest = nearest_field(name, paths)
    if nearest:
        return f"did you mean {paths[nearest]!r}?", f"Use {paths[nearest]!r}."
    if name in paths.values():
        return "it is a member of an object.", f"Nest it: {_nested(name)}."
    known = [leaf for leaf, path in paths.items() if leaf == path]
    remedy = "Leave it out."
    if "parameters" in known and name.isprintable():
        remedy = f"Leave it out; a parameter of the workload is 'parameters.{_shown(name)}'."
    return f"known: {', '.join(known)}.", remedy


def _nested(path: str) -> str:
    """Return a member of an object as it is written in JSON.

    Examples
    --------
    >>> _nested("pricing.spot.restart_s")
    '{"pricing": {"spot": {"restart_s": ...}}}'
    """
    names = path.split(".")
    return "".join(f'{{"{name}": ' for name in names) + "..." + "}" * len(names)


def _shown(name: str) -> str:
    return name[:SHOWN_CHARACTERS]


class RequestModel(BaseModel):
    """A request body or a set of query parameters; unknown names are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_fields(cls, data: Any) -> Any:
        if not isinstance(data, dict) or data.keys() <= names_of(cls):
            return data
        known = names_of(cls)
        unknown = [str(n) for n in data if n not in known and not cls.accepts_extra(str(n))]
        if unknown:
            # Sorted: merging a batch's defaults reorders members, which must not change the answer.
            contexts = [cls._unknown(name) for name in sorted(unknown)[:MAX_NAMED]]
            message = "Unknown field {name}: {hint}"
            raise PydanticCustomError("unknown_field", message, {**contexts[0], "each": contexts})
        return data

    @classmethod
    def _unknown(cls, name: str) -> dict[str, Any]:
        hint, remedy = _hint(name, _known_paths(cls))
        shown = _shown(name)
        return {"name": repr(shown), "hint": hint, "path": [shown], "remedy": remedy}

    @classmethod
    def accepts_extra(cls, name: str) -> bool:  # noqa: ARG003 - the hook's signature
        """Whether an undeclared field belongs to a family such as `param.*`."""
        return False


def one_per_field(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Split pydantic's one error about an object's unknown fields into one error per field."""
    contexts = (entry.get("ctx") or {}).get("each", ())
    return [
        {**entry, "ctx": context, "msg": f"Unknown field {context['name']}: {context['hint']}"}
        for context in contexts
    ] or [entry]


@dataclass(frozen=True, slots=True)
class Refusal:
    """The error for a value that matches no type of a union; for use in `Annotated`.

    Without it pydantic reports one error per type, under its internal name of that type.
    """

    message: str
    remedy: str

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return the schema of the union with this single error."""
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


class BodyReadByHand(RequestModel):
    """A body that the framework does not see; it is built when the first one comes."""

    model_config = ConfigDict(defer_build=True)


class ResponseModel(BaseModel):
    """A response body; the schema's own `of` builds it from keyword arguments."""

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="null", defer_build=True)


def reference_to(model: type[BaseModel]) -> dict[str, Any]:
    """Return a reference to a model in the OpenAPI document.

    The models listed in `app.api.openapi` are described where the document is written: describing
    them at start-up would delay the first answer of every process.
    """
    return {"$ref": f"{COMPONENTS}{model.__name__}"}


PageToken = Annotated[
    str | None,
    Field(max_length=200, description="`next_page_token` of the page before; default: the first"),
]


class PageQuery(RequestModel):
    """The paging parameters of every list."""

    page_size: Annotated[
        int, Field(ge=1, le=MAX_PAGE_SIZE, description="at most this many entries")
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
