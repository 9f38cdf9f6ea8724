"""The `tensorbow` command: train, tune, launch, plan, doctor."""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit status."""
    from tensorbow.cli import command_line

    return command_line.run(argv)
