"""Writes the API reference, made of the docstrings, into a folder.

    python tools/api_reference.py build/docs

`make docs` calls it, with pdoc where Python finds it.
"""

from __future__ import annotations

import argparse
import inspect
import os
import pathlib
import re
import sys
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import pdoc

import tensorbow
import tensorbow.keras

# What the package's parts call of each other.
INTERNAL = ("check_learners", "deposit", "join", "native_options")


def adopt_members(documented: type) -> None:
    """Gives a class the public members of its private bases, so that they are shown with it."""
    for base in reversed(inspect.getmro(documented)[1:]):
        if base.__module__.partition(".")[0] != "tensorbow":
            continue
        for name, member in vars(base).items():
            if not name.startswith("_"):
                setattr(documented, name, member)


def hide_members(documented: Any) -> None:
    """Takes members away that are not for users."""
    for name in INTERNAL:
        if name in vars(documented):
            delattr(documented, name)


def faults(folder: pathlib.Path) -> list[str]:
    """Links within the pages that lead nowhere, and public names without an entry."""
    texts = {page.resolve(): page.read_text() for page in folder.rglob("*.html")}
    anchors = {page: set(re.findall(r' id="([^"]*)"', text)) for page, text in texts.items()}
    found = set()
    for page, text in texts.items():
        for link in re.findall(r'<a [^>]*href="([^":]*)"', text):
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if "${" in link:  # of a script
                continue
            if target not in anchors or (anchor and anchor not in anchors[target]):
                found.add(f"{page.name}: the link {link} leads nowhere")
    for module in (tensorbow, tensorbow.keras):
        page = (folder / module.__name__.replace(".", "/")).with_suffix(".html").resolve()
        for name in module.__all__:
            if not inspect.ismodule(getattr(module, name)) and name not in anchors[page]:
                found.add(f"{page.name}: there is no entry for {name}")
    return sorted(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    folder = parser.parse_args().folder
    adopt_members(tensorbow.TensorBowSession)
    for name in tensorbow.__all__:
        if inspect.isclass(getattr(tensorbow, name)):
            hide_members(getattr(tensorbow, name))
    pdoc.render.configure(docformat="google", footer_text=f"TensorBow {tensorbow.__version__}")
    pdoc.pdoc("tensorbow", output_directory=folder)
    wrong = faults(folder)
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"the API reference is {folder / 'tensorbow.html'}")


if __name__ == "__main__":
    main()
