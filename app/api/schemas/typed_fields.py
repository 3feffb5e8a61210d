"""A request model's fields as a TypedDict: the same checks without creating nested objects."""

from types import NoneType, UnionType
from typing import Annotated, Any, NotRequired, Union, get_args, get_origin

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from app.api.schemas.base import RequestModel


def typed_fields(model: type[RequestModel], *nested: type[RequestModel]) -> Any:
    """Return a TypedDict that accepts the same documents as a model.

    Fields of `nested` models become TypedDicts too; fields of other models keep them. Fields that
    the document omits stay absent. To explain a refusal, validate with the model itself.
    """
    fields: dict[str, Any] = {}
    for name, info in model.model_fields.items():
        annotation: Any = _typed(info.annotation, nested)
        for constraint in info.metadata:
            annotation = Annotated[annotation, constraint]
        fields[name] = annotation if info.is_required() else NotRequired[annotation]
    name = f"{model.__name__}Fields"
    typed_dict: Any = TypedDict(name, fields)  # type: ignore[misc]  # made at run time
    return with_config(ConfigDict(extra="forbid", allow_inf_nan=False))(typed_dict)


def _typed(annotation: Any, nested: tuple[type[RequestModel], ...]) -> Any:
    if annotation in nested:
        return typed_fields(annotation, *nested)
    if get_origin(annotation) in {Union, UnionType} and NoneType in get_args(annotation):
        parts = [_typed(part, nested) for part in get_args(annotation)]
        return Union[tuple(parts)]  # noqa: UP007 - made at run time
    return annotation


Values = dict[str, Any]
"""The result of validating a TypedDict: a new dictionary."""
