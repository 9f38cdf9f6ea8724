"""Executes the blocks of a guide, in order, as a reader would."""

from __future__ import annotations

import contextlib
import io
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
GUIDES = ROOT / "docs" / "guides"

# A block after the marker, and the block with its output, if one follows at once.
_BLOCK = r"^<!-- (\S+) executes this -->\n```python\n(.*?)^```\n(?:\n```\n(.*?)^```\n)?"


def blocks(page: pathlib.Path) -> list[tuple[str, str, str]]:
    """Returns the named test, the code and its stated output ("": none)."""
    return re.findall(_BLOCK, page.read_text(), re.M | re.S)


def execute(page: pathlib.Path) -> None:
    """Executes the page's blocks in one namespace, and compares their output."""
    names = {"__name__": "__main__"}
    for _, code, shown in blocks(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, f"{page.name}: {code[:60]}", "exec"), names)
        if shown:
            assert printed.getvalue() == shown


def cells(notebook: pathlib.Path) -> list[dict]:
    """Returns the cells of a notebook."""
    return json.loads(notebook.read_text())["cells"]
