"""Tells who writes a field as an option how fields are written."""

from typing import Any

from typer.core import TyperCommand
from typer.exceptions import TyperException
from typing_extensions import override

from app.cli.failures import UsageError
from app.cli.fields import FORECAST_FIELDS, RECOMMEND_FIELDS
from app.domain.flat_fields import PARAMETER


class FieldsCommand(TyperCommand):
    """A command with fields (`workers=8`), which some take for options (`--workers 8`)."""

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Return the arguments that are left.

        Raises
        ------
        UsageError
            If an unknown option has the name of a field.
        """
        try:
            return super().parse_args(ctx, args)
        except TyperException as error:
            option = getattr(error, "option_name", "")
            field = option.removeprefix("--")
            if not field.startswith(PARAMETER):
                field = field.replace("-", "_")
                if field not in {*FORECAST_FIELDS, *RECOMMEND_FIELDS}:
                    raise
            remedy = f"It is a field: write {field}=VALUE, without dashes."
            raise UsageError(f"There is no option {option}.", remedy) from None
