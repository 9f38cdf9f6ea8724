"""Fails on comments and docstrings that are hard to read: comment_lint.py (part of `make lint`)."""

import ast
import io
import pathlib
import re
import sys
import tokenize

FOLDERS = ("cc", "tf_ops", "tests", "tensorbow", "benchmarks", "examples", "tools")
MOST_WORDS = 30
OPENINGS = "What|Which|Of|Those|Where|Whether|By|For|With|That"
RIDDLE = re.compile(rf"\A({OPENINGS})\b|\b(of|by|with|from)\s+what\b")
# The end of a sentence or of a paragraph, or the start of a formula or of an item of a list.
BREAK = re.compile(r"[.:;?!]\s+|\n\s*\n|\n(?=  |[-*|>`]|\d\.|\w+:)|$")


def comments(source: str, is_python: bool) -> list[list]:
    """Returns the comments of a file, each with the number of its first line and its text."""
    blocks, end = [], (0, 0)
    if is_python:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and node.body:
                blocks.append([node.body[0].lineno, ast.get_docstring(node) or ""])
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        found = [(*t.start, t.line, t.string[1:]) for t in tokens if t.type == tokenize.COMMENT]
    else:
        matches = (re.search(r"(?<!\S)//(.*)", line) for line in source.splitlines())
        found = [(k, m.start(), m.string, m[1]) for k, m in enumerate(matches, 1) if m]
    for row, column, line, text in found:
        # A line of its own continues the comment above it in the same column.
        if (row, column) != end or line[:column].strip():
            blocks.append([row, ""])
        blocks[-1][1] += text.removeprefix(" ") + "\n"
        end = (row + 1, column)
    return blocks


def main() -> int:
    paths = [path for folder in FOLDERS for path in pathlib.Path(folder).rglob("*.*")]
    failed = False
    for path in sorted(p for p in paths if p.suffix in (".py", ".cc", ".h")):
        for row, text in comments(path.read_text(), path.suffix == ".py"):
            faults = [(m.start(), f"{m[0]!r}: use a verb or a noun") for m in RIDDLE.finditer(text)]
            ends = [0, *(match.end() for match in BREAK.finditer(text))]
            lengths = [(a, len(text[a:b].split())) for a, b in zip(ends, ends[1:])]
            faults += [(a, f"a sentence of {n} words") for a, n in lengths if n > MOST_WORDS]
            for at, fault in sorted(faults):
                print(f"{path}:{row + text.count(chr(10), 0, at)}: {fault} (tools/comment_lint.py)")
            failed |= len(faults) > 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
