"""Hooks of mkdocs: pages of the site that lie outside of docs/, and links to them.

README.md is the start page. Changelog, contributing, benchmark results, examples and the
notebook become pages; links between files of the repository become links between pages.
"""

from __future__ import annotations

import ast
import json
import os
import pathlib
import re
import textwrap
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
NOTEBOOK = EXAMPLES / "quickstart.ipynb"

# The page of the site for each file or folder of the repository.
PAGES = {
    "README.md": "index.md",
    "docs/README.md": "index.md",
    "examples": "examples/index.md",
    "examples/quickstart.ipynb": "examples/quickstart.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "benchmarks/results": "performance.md",
    "LICENSE": "LICENSE.txt",
    "CITATION.cff": "CITATION.cff",
    ".github/workflows/ci.yml": "ci.yml",
}

API = {
    "session": (
        "Sessions",
        [
            "TensorBowSession",
            "InteractiveSession",
            "TensorBowWarning",
            "Explanation",
            "Comparison",
            "Difference",
        ]
        + ["SessionCreator", "SessionManager"],
    ),
    "options": (
        "Options and synchronisers",
        ["Options", "SSGD", "SMA", "EASGD", "AdaptiveSGD", "Independent", "Cluster"],
    ),
    "keras": ("Keras", ["keras"]),
    "function": ("tensorbow.function", ["function", "session_of", "Function"]),
    "other": (
        "Metrics, hooks, data",
        ["Metrics", "LearnerMetrics", "Quantiles", "MetricsHook", "MegaBatch", "Measurement"]
        + ["data"],
    ),
}


def github_anchor(text: str, separator: str) -> str:
    """Returns the anchor of a heading as GitHub makes it, so that links work there and here."""
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", separator)


def page_of(path: str) -> str | None:
    """Returns the page of the site for a path in the repository; None if it has none."""
    if path in PAGES:
        return PAGES[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if re.fullmatch(r"benchmarks/results/\w+\.(md|json)", path):
        return path
    if re.fullmatch(r"examples/\w+\.py", path):
        return f"examples/index.md#{pathlib.PurePath(path).stem}"
    return None


def relinked(text: str, source: str, page: str) -> str:
    """Turns links between files into links between pages.

    Args:
      text: Markdown.
      source: the file it comes from, in the repository.
      page: the page it becomes.
    """

    def replace(match: re.Match[str]) -> str:
        link, _, anchor = match[1].partition("#")
        if not link or re.match(r"[a-z]+:", match[1]):
            return match[0]
        path = os.path.normpath(os.path.join(os.path.dirname(source), link))
        target = page_of(path)
        if target is None:
            return match[0]
        target += f"#{anchor}" if anchor else ""
        return f"]({os.path.relpath(target, os.path.dirname(page) or '.')})"

    return re.sub(r"\]\(([^()\s]+)\)", replace, text)


def notebook_page() -> str:
    """Returns the notebook as Markdown, with the output of its cells."""
    parts = []
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            if output["output_type"] == "stream":
                parts.append(f"```text\n{''.join(output['text']).rstrip()}\n```")
            elif "image/svg+xml" in output.get("data", {}):
                parts.append("".join(output["data"]["image/svg+xml"]))
    return "\n\n".join(parts) + "\n"


def gallery() -> str:
    """Returns the page of all examples: descriptions and programs."""
    parts = [
        "# Examples\n\nWhole programs, which the tests run. "
        "[A first notebook](quickstart.md) explains step by step."
    ]
    for path in sorted(EXAMPLES.glob("*.py")):
        program = path.read_text()
        title, _, rest = (ast.get_docstring(ast.parse(program)) or "").partition("\n\n")
        commands = re.compile(r"^(?: {4}\S.*\n?)+", re.M)
        said = commands.sub(lambda found: f"```\n{textwrap.dedent(found[0])}```\n", rest)
        code = program.partition('"""\n\n')[2]
        parts.append(
            f"## {path.stem}\n\n{title}\n\n{said}\n\n"
            f'??? example "{path.name}"\n\n'
            + "\n".join(f"    {line}" for line in f"```python\n{code.rstrip()}\n```".splitlines())
        )
    return "\n\n".join(parts) + "\n"


def api_page(title: str, names: list[str]) -> str:
    """Returns a page of the API reference."""
    entries = "\n\n".join(f"::: tensorbow.{name}" for name in names)
    entries = entries.replace(
        "InteractiveSession", "InteractiveSession\n    options:\n      inherited_members: false"
    )
    return f"# {title}\n\nMade from the docstrings of the package.\n\n{entries}\n"


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages that lie outside of docs/."""
    from mkdocs.structure.files import File

    def add(page: str, content: str) -> None:
        files.append(File.generated(config, page, content=content))

    texts = {"index.md": "README.md", "CHANGELOG.md": "CHANGELOG.md"}
    texts["CONTRIBUTING.md"] = "CONTRIBUTING.md"
    for path in sorted((ROOT / "benchmarks" / "results").iterdir()):
        if path.suffix == ".md":
            texts[f"benchmarks/results/{path.name}"] = f"benchmarks/results/{path.name}"
        else:
            add(f"benchmarks/results/{path.name}", path.read_text())
    for page, source in texts.items():
        add(page, relinked((ROOT / source).read_text(), source, page))
    for source in ("LICENSE", "CITATION.cff", ".github/workflows/ci.yml"):
        add(PAGES[source], (ROOT / source).read_text())
    for name, (title, names) in API.items():
        add(f"api/{name}.md", api_page(title, names))
    add("examples/index.md", gallery())
    notebook = relinked(notebook_page(), "examples/quickstart.ipynb", "examples/quickstart.md")
    add("examples/quickstart.md", notebook)
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Relinks the pages of docs/, and drops the tests' comments."""
    path = page.file.src_uri
    if path.startswith("benchmarks/"):
        page.meta["search"] = {"boost": 0.0001}  # tables of numbers come last, even by title
    elif path.startswith(("adr/", "CONTRIBUTING", "CHANGELOG")):
        page.meta["search"] = {"boost": 0.3}  # after guides and reference
    if page.file.generated_by is None:
        markdown = relinked(markdown, f"docs/{path}", path)
    return re.sub(r"^<!-- .* -->\n", "", markdown, flags=re.M)
