"""Files that a command writes: checked when it starts, written when it ends. No TensorFlow."""

from __future__ import annotations

import argparse
import importlib.util
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Callable

# The formats of matplotlib that people mean.
PICTURES = (".png", ".pdf", ".svg", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".eps", ".ps")
LEAST_BYTES = 16 << 20


def fault_of(path: pathlib.Path, wanted_bytes: int = LEAST_BYTES) -> str:
    """Returns why a file could not be written there; "" if nothing is in the way."""
    folder = path.resolve().parent
    if not folder.is_dir():
        return f"there is no directory {folder}"
    if path.is_dir():
        return "this is a directory; wanted the name of a file in it"
    try:
        if path.is_file():
            path.open("ab").close()
        elif not path.exists():
            tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        return f"cannot be written ({error.strerror}); name a file in another directory"
    free = shutil.disk_usage(folder).free
    if free < wanted_bytes:
        return (
            f"the disk is full; name a file on another one, or make room: {free / 1e6:.0f} MB are "
            f"free, wanted {wanted_bytes / 1e6:.0f} MB"
        )
    return ""


def check(
    parser: argparse.ArgumentParser,
    arguments: argparse.Namespace,
    *names: str,
    wanted_bytes: int = 0,
) -> None:
    """Refuses files, by the names of their flags, that could not be written."""
    for name in names:
        path = getattr(arguments, name)
        if path is None:
            continue
        fault = fault_of(path, max(wanted_bytes, LEAST_BYTES))
        if name == "plot" and not fault:
            fault = _fault_of_picture(path)
        if fault:
            parser.error(f"--{name} {path}: {fault}")


def _fault_of_picture(path: pathlib.Path) -> str:
    if path.suffix.lower() not in PICTURES:
        got = f"got {path.suffix}" if path.suffix else "got none"
        return f"the ending chooses the format; wanted one of {' '.join(PICTURES)}, {got}"
    if importlib.util.find_spec("matplotlib") is None:
        return "pictures are drawn by matplotlib, which is not installed: pip install matplotlib"
    return ""


def write(what: str, path: pathlib.Path | None, do: Callable[[pathlib.Path], None]) -> bool:
    """Writes a file, if one is wanted, and says in one line how it went; false if it failed."""
    if path is None:
        return True
    try:
        do(path)
    except Exception as error:  # of whatever writes it
        why = (str(error).strip().splitlines() or [type(error).__name__])[0]
        print(f"tensorbow: {what} not saved as {path}: {why}", file=sys.stderr, flush=True)
        return False
    print(f"{what} saved as {path}", flush=True)
    return True
