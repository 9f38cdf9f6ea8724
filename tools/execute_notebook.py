"""Executes the cells of a notebook, and keeps their output in it: execute_notebook.py FILE

Uses the Python that executes this program; Jupyter is not needed.
"""

from __future__ import annotations

import contextlib
import io
import json
import pathlib
import sys


def main() -> None:
    path = pathlib.Path(sys.argv[1])
    notebook = json.loads(path.read_text())
    names = {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(cells, 1):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
        text = printed.getvalue().splitlines(keepends=True)
        stream = {"name": "stdout", "output_type": "stream", "text": text}
        cell["outputs"] = [stream] if text else []
        cell["execution_count"] = number
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
