"""The command line `trainfare`."""


def main() -> None:
    """Run the command that the process was started with."""
    # Imported here: processes that a command starts import this package, and need no command.
    from app.cli import commands

    commands.main()
