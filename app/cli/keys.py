"""`trainfare keys` and `trainfare audit`: access and its history, in the database itself."""

from contextlib import closing, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Final

import typer

from app.cli.operator import Json, read_settings
from app.domain.access import DEFAULT_PROJECT, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.domain.access import ApiKey
    from app.services.access import AccessService

CREATE_EXAMPLES: Final = (
    "trainfare keys create --name ci --scope runs:write --scope fits:write --scope read",
    "trainfare keys create --name admin --scope admin --project vision --days 90",
)
_MAX_LIFETIME: Final = timedelta(days=36_525)
"""A century: dates cannot exceed the year 9999."""
keys = typer.Typer(no_args_is_help=True, help="Make, list and revoke API keys.")


@contextmanager
def _access() -> "Iterator[AccessService]":
    from app.cli.surroundings import open_migrated_context
    from app.services.access import AccessService

    with (
        open_migrated_context(read_settings()) as context,
        closing(AccessService(context)) as access,
    ):
        yield access


def _document(key: "ApiKey", project: str) -> dict[str, object]:
    return {
        "key_id": key.key_id,
        "name": key.name,
        "project": project,
        "scopes": sorted(key.scopes),
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
        "last_used_at": key.last_used_at,
    }


def _lifetime(days: float | None) -> timedelta | None:
    """Return a key's lifetime; it must be positive."""
    if days is None:
        return None
    if not 0 < days <= _MAX_LIFETIME.days or not (lifetime := timedelta(days=days)):
        raise typer.BadParameter(
            f"{days:g} is not above 0 and at most {_MAX_LIFETIME.days}.", param_hint="--days"
        )
    return lifetime


def _parse_scope(text: str) -> Scope:
    if text not in set(Scope):
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(Scope)}.")
    return Scope(text)


def create(
    *,
    name: Annotated[str, typer.Option(help="What the key is for.")],
    scope: Annotated[
        list[Scope],
        typer.Option(
            parser=_parse_scope,
            metavar="|".join(Scope),
            help="What it may do; may be repeated.",
        ),
    ],
    project: Annotated[
        str, typer.Option(help="Project whose data it sees; created if missing.")
    ] = DEFAULT_PROJECT,
    days: Annotated[
        float | None, typer.Option(help="Days until it expires, more than 0; default: never.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Create a key; its secret is shown only this once."""
    from app.cli.output import print_json, print_note
    from app.domain.instants import instant_text

    lifetime = _lifetime(days)
    with _access() as access:
        key, token = access.create_key(name, scope, project=project, lifetime=lifetime)
    if as_json:
        print_json({**_document(key, project), "token": token})
        return
    typer.echo(token)
    until = "" if key.expires_at is None else f" until {instant_text(key.expires_at)}"
    print_note(
        f"Key {key.key_id} of project {project} may {', '.join(sorted(key.scopes))}{until}."
        " The line above is shown only this once: keep it secret."
    )


def list_keys(*, as_json: Json = False) -> None:
    """List all keys, without their secrets."""
    from app.cli.output import print_json, print_table

    with _access() as access:
        documents = [_document(key, project.name) for key, project in access.list_keys()]
    if as_json:
        print_json({"keys": documents})
        return
    print_table(documents)


def revoke(
    key: Annotated[
        str, typer.Argument(metavar="KEY_ID", help="The public part, KEYID of `tf_KEYID_...`.")
    ],
) -> None:
    """Revoke a key; all running processes refuse it within seconds."""
    from app.cli.output import print_note

    with _access() as access:
        key_id = access.revoke_key(key)
    print_note(f"Key {key_id} is revoked.")


def audit(
    *,
    project: Annotated[str, typer.Option(help="Project whose log to show.")] = DEFAULT_PROJECT,
    limit: Annotated[
        int, typer.Option(min=1, max=100_000, help="At most this many entries.")
    ] = 100,
    as_json: Json = False,
) -> None:
    """Show who changed what, newest first.

    The log covers exclusions, removals, publications, prices and keys.
    """
    from app.cli.output import print_json, print_table

    with _access() as access:
        entries = access.list_audit(project, limit=limit)
    documents: list[dict[str, object]] = [
        {
            "at": entry.at,
            "key_id": entry.key_id,
            "action": entry.action,
            "subject": entry.subject,
            "detail": entry.detail,
        }
        for entry in entries
    ]
    if as_json:
        print_json({"audit": documents})
        return
    print_table(documents)
