"""Arguments that several commands share, and their checks."""

from __future__ import annotations

import argparse
import math
import pathlib

from tensorbow.cli import model_names


def add_program(parser: argparse.ArgumentParser) -> None:
    """Adds the program to train: a script with its arguments, or a model by name."""
    program = parser.add_mutually_exclusive_group(required=True)
    program.add_argument("script", nargs="?", type=pathlib.Path, help="a program that trains")
    program.add_argument(
        "--model", choices=sorted(model_names.MODELS), help="a model of ours instead"
    )
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, help="of the script: all that follows it"
    )


def check_positive(
    parser: argparse.ArgumentParser, arguments: argparse.Namespace, *names: str
) -> None:
    """Refuses arguments, by their names, that are not greater than 0 and finite."""
    for name in names:
        value = getattr(arguments, name)
        if value is not None and not 0 < value < math.inf:
            parser.error(f"--{name.replace('_', '-')} must be greater than 0, got {value}")
