"""Fails if a folder of cc/ includes one above it: layers.py (part of `make lint`)."""

import pathlib
import re
import sys

# Lowest first. A folder includes its own files, and folders of earlier lines or further left
# in its line.
LAYERS = """
support
scheduler memory activity data tuner central_model
device arithmetic reducer graph feeds
synchroniser/hosts synchroniser synchroniser/algorithms synchroniser/gpu analysis
config cluster passes/task passes/program passes/loops passes
learner
program replicas
training
coordination
checkpoint
trainer
session
bindings
"""
ROOT = pathlib.Path(__file__).parents[1]
PLACES = {folder: k for k, folder in enumerate(LAYERS.split())}


def layer(path: str) -> int:
    """The place of the longest folder of the table that `path`, below cc/, lies in."""
    parts = path.split("/")[:-1]
    while parts and "/".join(parts) not in PLACES:
        parts.pop()
    return PLACES["/".join(parts)]


def main() -> int:
    failed = False
    for path in sorted((ROOT / "cc").rglob("*.*")):
        file = str(path.relative_to(ROOT / "cc"))
        for included in re.findall(r'#include "cc/([^"]+)"', path.read_text()):
            if layer(included) > layer(file):
                print(f"cc/{file} includes cc/{included}, which is above it (tools/layers.py)")
                failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
