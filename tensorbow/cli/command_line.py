"""The `tensorbow` command: train a classifier, find the best number of learners, try several
hosts or predict them, or say what is installed."""

from __future__ import annotations

import argparse
import pathlib
import signal
import sys
from collections.abc import Sequence
from typing import Any

from tensorbow._runtime import loader
from tensorbow.cli import launch, outputs
from tensorbow.cli.arguments import add_program, check_positive
from tensorbow.cli.plan import command as plan
from tensorbow.cli.train import flags
from tensorbow.version import __version__


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tensorbow", description=__doc__)
    parser.add_argument("--version", action="version", version=f"tensorbow {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)

    flags.add_parser(commands)
    _add_tune(commands)
    launch.add_parser(commands)
    plan.add_parser(commands)
    doctor = commands.add_parser(
        "doctor", help="print versions, devices and whether everything loads"
    )
    doctor.set_defaults(parser=doctor)
    return parser


def _add_tune(commands: Any) -> None:
    tune = commands.add_parser("tune", help="how fast a program trains with which learners")
    tune.set_defaults(parser=tune)
    add_program(tune)
    tune.add_argument(
        "--batch-size", type=int, default=32, help="with --model: rows of a run, of all learners"
    )
    tune.add_argument("--seconds", type=float, default=120, help="at most so long")
    tune.add_argument("--plot", type=pathlib.Path, help="save the throughputs as a picture")


def _check_tune(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    check_positive(parser, arguments, "batch_size", "seconds")
    if arguments.script is not None and not arguments.script.is_file():
        parser.error(f"{arguments.script}: there is no such file")
    outputs.check(parser, arguments, "plot")


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit status."""
    arguments = _parser().parse_args(argv)
    try:
        return _command(arguments.parser, arguments)
    except KeyboardInterrupt:
        print("tensorbow: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT


def _command(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    if arguments.command == "doctor":
        from tensorbow.cli import doctor

        return doctor.run()
    if arguments.command == "launch":
        return launch.run(parser, arguments)
    checks = {"train": flags.check, "tune": _check_tune, "plan": plan.check}
    checks[arguments.command](parser, arguments)
    print("tensorbow: loading TensorFlow", file=sys.stderr, flush=True)
    try:
        loader.load()
    except ImportError as error:
        print(f"tensorbow: {error}", file=sys.stderr)
        return 1
    if arguments.command == "tune":
        from tensorbow.cli import tune

        return tune.run(arguments)
    if arguments.command == "plan":
        return plan.run(arguments)
    from tensorbow.cli.train import command as train

    return train.run(parser, arguments)
