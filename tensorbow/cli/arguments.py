"""Checks of arguments that several commands share."""

from __future__ import annotations

import argparse
import math


def check_positive(
    parser: argparse.ArgumentParser, arguments: argparse.Namespace, *names: str
) -> None:
    """Refuses arguments, by their names, that are not greater than 0 and finite."""
    for name in names:
        value = getattr(arguments, name)
        if value is not None and not 0 < value < math.inf:
            parser.error(f"--{name.replace('_', '-')} must be greater than 0, got {value}")
