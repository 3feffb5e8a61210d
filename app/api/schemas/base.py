"""What all requests and responses share: unknown request fields are refused by name."""

from collections.abc import KeysView, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, model_validator
from pydantic_core import CoreSchema, PydanticCustomError

from app.domain.identifiers import Slug, parse_slug
from app.domain.pages import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE
from app.domain.spelling import nearest_field

SHOWN_CHARACTERS = 100
"""So much of a name that is not known is told."""


@cache
def _known_names(model: type[BaseModel]) -> KeysView[str]:
    return {info.alias or name: None for name, info in model.model_fields.items()}.keys()


def hint_at(name: str, known: Sequence[str]) -> tuple[str, str]:
    """Return what a message says of a name that is not known, and the remedy."""
    nearest = nearest_field(name, known)
    if nearest:
        return f"did you mean {nearest!r}?", f"Use {nearest!r}."
    return f"known: {', '.join(known)}.", "Leave it out."


class RequestModel(BaseModel):
    """A request body or a set of query parameters; strict about its names."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_fields(cls, data: Any) -> Any:
        if not isinstance(data, dict) or data.keys() <= _known_names(cls):
            return data
        known = list(_known_names(cls))
        for name in data:
            if name not in known and not cls.accepts_extra(str(name)):
                shown = str(name)[:SHOWN_CHARACTERS]
                hint, remedy = hint_at(str(name), known)
                raise PydanticCustomError(
                    "unknown_field",
                    "Unknown field {name}: {hint}",
                    {
                        "name": repr(shown),
                        "hint": hint,
                        "path": [shown],
                        "remedy": remedy,
                    },
                )
        return data

    @classmethod
    def accepts_extra(cls, name: str) -> bool:  # noqa: ARG003 - the hook's signature
        """Whether a field that is not declared belongs to a family such as `param.*`."""
        return False


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


class PageQuery(RequestModel):
    """The query of every list."""

    page_size: Annotated[int, Field(ge=1, le=MAX_PAGE_SIZE)] = DEFAULT_PAGE_SIZE
    page_token: Annotated[str | None, Field(max_length=200)] = None


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
