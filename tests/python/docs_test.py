"""The documentation is coherent: links have targets, sections are short, tables complete."""

import argparse
import ast
import dataclasses
import inspect
import json
import pathlib
import re
import sys

import pytest

import tensorbow
from tensorbow._runtime import releases
from tensorbow.cli import command_line, model_names
from tensorbow.cli.train import extreme

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import site_hooks  # noqa: E402

DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md")])
READ = [p for p in PAGES if p.parent == ROOT or DOCS in p.parents]

SCREEN = 50  # lines


def name(page: pathlib.Path) -> str:
    return str(page.relative_to(ROOT))


def without_code(text: str) -> str:
    """Returns the text, with empty lines instead of code blocks."""
    return re.sub(r"^```.*?^```$", lambda m: "\n" * m[0].count("\n"), text, flags=re.M | re.S)


def headings(page: pathlib.Path) -> list[str]:
    return re.findall(r"^#+ (.*)$", without_code(page.read_text()), re.M)


def anchors(page: pathlib.Path) -> set[str]:
    """Returns the anchors of a page's headings, as GitHub makes them."""
    found: dict[str, int] = {}
    for heading in headings(page):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        number = found.setdefault(anchor, 0)
        found[anchor] += 1
        if number:
            found[f"{anchor}-{number}"] = 1
    return set(found)


def links(text: str) -> list[str]:
    """Returns the targets of all links, including pictures and links in tables."""
    return re.findall(r"\]\(([^()\s]+)\)", without_code(text))


def broken(page: pathlib.Path, text: str = "") -> list[str]:
    """Returns the links without a target, of a page or of a text that replaces it."""
    found = []
    for link in links(text or page.read_text()):
        if re.match(r"https?://|mailto:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    assert broken(page) == []


@pytest.mark.parametrize("notebook", sorted(ROOT.glob("examples/*.ipynb")), ids=name)
def test_links_of_notebooks_lead_somewhere(notebook):
    cells = json.loads(notebook.read_text())["cells"]
    text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    assert links(text) and broken(notebook, text) == []


def test_broken_links_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A title, `code`\n[a](no.md) [b](#no) [c](#a-title-code) [d](page.md#no)\n")
    assert broken(page) == ["no.md", "#no", "page.md#no"]


@pytest.mark.parametrize("page", READ, ids=name)
def test_no_section_is_longer_than_a_screen(page):
    if page.name == "CHANGELOG.md":
        pytest.skip("a list of changes has no sections of its own")
    length, title, long = 0, "", []
    in_code = False
    for line in page.read_text().splitlines():
        in_code ^= line.startswith("```")
        if line.startswith("#") and not in_code:
            length, title = 0, line
        length += not line.startswith("|")  # a table is looked up, not read
        if length == SCREEN + 1:
            long.append(title)
    assert long == []


def test_all_pages_are_listed():
    listed = {(DOCS / link.partition("#")[0]).resolve() for link in links(_text("README.md"))}
    decisions = {p for p in DOCS.rglob("*.md") if p.parent.name == "adr" and p.name != "README.md"}
    assert set(DOCS.rglob("*.md")) - decisions - {DOCS / "README.md"} <= listed
    adr = DOCS / "adr"
    assert {p.name for p in decisions} <= set(links((adr / "README.md").read_text()))


def test_all_pages_are_in_the_menu_of_the_site():
    menu = set(re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M))
    decisions = {p for p in DOCS.rglob("*.md") if p.parent.name == "adr" and p.name != "README.md"}
    pages = {str(p.relative_to(DOCS)) for p in set(DOCS.rglob("*.md")) - decisions}
    added = {
        site_hooks.PAGES[source] for source in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")
    }
    added |= {"examples/index.md", "examples/quickstart.md"}
    added |= {f"api/{name}.md" for name in site_hooks.API}
    assert menu == pages - {"README.md"} | added


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_pages_of_the_site(page):
    local = [link for link in links(page.read_text()) if not re.match(r"[a-z]+:|#", link)]
    targets = [(page.parent / link.partition("#")[0]).resolve() for link in local]
    lost = [t for t in targets if site_hooks.page_of(str(t.relative_to(ROOT))) is None]
    assert lost == [] or page.parent == ROOT / "benchmarks"


def test_links_of_the_site_are_between_pages():
    text = "[a](../performance.md#memory) [b](../../README.md) [c](https://x.y/z.md) [d](#e)"
    found = site_hooks.relinked(text, "docs/guides/keras-3.md", "guides/keras-3.md")
    assert found == text.replace("../../README.md", "../index.md")
    text = "[a](docs/hosts.md) [b](examples/swap_session.py)"
    assert site_hooks.relinked(text, "README.md", "index.md") == (
        "[a](hosts.md) [b](examples/index.md#swap_session)"
    )


def test_the_site_has_an_entry_for_all_that_is_public():
    entries = {name_ for _, names in site_hooks.API.values() for name_ in names}
    assert entries == set(tensorbow.__all__) - {"__version__"} | {"keras"}


def test_all_examples_are_in_the_gallery():
    gallery = site_hooks.gallery()
    for example in (ROOT / "examples").glob("*.py"):
        assert f"\n## {example.stem}\n" in gallery
    assert "```\npython examples/swap_session.py" in gallery


def test_the_pythons_that_are_claimed_are_tested():
    (first, last) = re.findall(r"Python (3\.\d+) to (3\.\d+)", _text("install.md"))[0]
    minors = range(*(int(version[2:]) for version in (first, last)))
    claimed = {f"3.{minor}" for minor in (*minors, minors.stop)}
    rows = re.findall(r"^\| (3\.[\d., ]*) \|", _text("releases.md"), re.M)
    assert {version for row in rows for version in row.split(", ")} == claimed
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    assert set(re.findall(r'python(?:-version)?: "(3\.\d+)"', workflow)) == claimed
    assert f'requires-python = ">={first}"' in (ROOT / "pyproject.toml").read_text()


def test_the_releases_that_are_claimed_are_those_of_the_package():
    rows = re.findall(r"^\| (2\.\d+) \| yes", _text("releases.md"), re.M)
    known = {"{}.{}".format(*release) for release in releases.KERAS_OF}
    assert set(rows) == known
    for page in (ROOT / "README.md", DOCS / "install.md"):
        found = set(re.findall(r"\b2\.(?:19|2\d)\b", page.read_text()))
        assert {min(known), max(known)} <= found <= known, page


def _text(page: str) -> str:
    return (DOCS / page).read_text()


@pytest.mark.parametrize("page", READ, ids=name)
def test_python_blocks_are_python(page):
    for block in re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S):
        ast.parse(block)


def test_readme_is_a_screen_and_a_half():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 105


def test_all_options_have_a_row():
    rows = "\n".join(re.findall(r"^\| (`.*?) \|", _text("options.md"), re.M))
    missing = [f.name for f in dataclasses.fields(tensorbow.Options) if f"`{f.name}`" not in rows]
    assert missing == []


def test_all_that_a_session_adds_has_a_row():
    rows = "\n".join(re.findall(r"^\| (`.*?) \|", _text("options.md"), re.M))
    added = {
        attribute
        for part in inspect.getmro(tensorbow.TensorBowSession)
        if part.__module__.startswith("tensorbow")
        for attribute in vars(part)
        if not attribute.startswith("_")
    }
    overridden = {"close", "partial_run_setup", "sess_str"}  # of TensorFlow's session
    missing = [a for a in sorted(added - overridden) if not re.search(rf"`{a}[`(]", rows)]
    assert missing == []


def test_what_models_train_with_is_said():
    rows = re.findall(
        r"^\| (`[^|]*`) \| (\w+), (\S+) \| (accuracy|precision@1) (\S+) \|$",
        _text("command-line.md"),
        re.M,
    )
    said = {
        model: (optimiser, float(rate), float(target))
        for models, optimiser, rate, _, target in rows
        for model in re.findall(r"`(\w+)`", models)
    }
    facts = {
        name: (model.optimiser, model.learning_rate, model.target)
        for name, model in model_names.MODELS.items()
    }
    xml = tuple(extreme.DEFAULTS[key] for key in ("optimiser", "learning_rate", "target"))
    assert said == {**facts, "xml": xml}


def test_all_synchronisers_have_a_row():
    text = _text("options.md")
    for synchroniser in (
        tensorbow.SMA,
        tensorbow.EASGD,
        tensorbow.SSGD,
        tensorbow.AdaptiveSGD,
        tensorbow.Independent,
    ):
        assert re.search(rf"^\| `{synchroniser.__name__}\(", text, re.M), synchroniser


def test_all_commands_have_a_section():
    actions = command_line._parser()._actions
    (commands,) = (a for a in actions if isinstance(a, argparse._SubParsersAction))
    sections = re.findall(r"^## tensorbow (.*)$", _text("command-line.md"), re.M)
    assert sorted(sections) == sorted(commands.choices)


def docstrings(of: object, where: str) -> list[tuple[str, str]]:
    """Returns the docstrings of a module or class and of its public members."""
    found = [(where, inspect.getdoc(of) or "")]
    inside = of.__all__ if inspect.ismodule(of) else vars(of)
    for name_ in inside:
        member = getattr(of, name_)
        if name_.startswith("_") or not (inspect.isroutine(member) or inspect.isclass(member)):
            continue
        if inspect.isclass(member) and not inspect.ismodule(of):
            continue
        found += (
            docstrings(member, f"{where}.{name_}")
            if inspect.isclass(member)
            else [(f"{where}.{name_}", inspect.getdoc(member) or "")]
        )
    return found


def test_docstrings_render_as_markdown():
    found = docstrings(tensorbow, "tensorbow") + docstrings(tensorbow.keras, "tensorbow.keras")
    for part in inspect.getmro(tensorbow.TensorBowSession):
        if part.__module__.startswith("tensorbow"):
            found += docstrings(part, part.__name__)
    assert len(found) > 50
    for where, text in found:
        code = re.sub(r"`[^`]*`|^ *(?:>>>|\.\.\.) .*$", "", text, flags=re.M)
        assert not re.search(r"::$", code, re.M), f"{where}: '::' is shown as it is"
        assert not re.search(r"<[a-z]\w*>", code), f"{where}: <name> is taken for HTML"
        assert "*args" not in code, f"{where}: '*args' is taken for emphasis"


def test_changelog_has_this_version():
    versions = re.findall(r"^## ([\d.]+) - (\d{4}-\d\d-\d\d)$", _changelog(), re.M)
    assert versions[0][0] == tensorbow.__version__
    assert f"\ndate-released: {versions[0][1]}\n" in (ROOT / "CITATION.cff").read_text()


def _changelog() -> str:
    return (ROOT / "CHANGELOG.md").read_text()


def test_citation_is_of_this_version_and_names_the_papers():
    text = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {tensorbow.__version__}\n" in text
    assert "\nlicense: Apache-2.0\n" in text
    assert re.findall(r'^    title: "(.*)"$', text, re.M) == [
        "TensorBow",
        "CROSSBOW: Scaling Deep Learning with Small Batch Sizes on Multi-GPU Servers",
        "Involving CPUs into Multi-GPU Deep Learning",
        "Adaptive Elastic Training for Sparse Deep Learning on Heterogeneous Multi-GPU Servers",
    ]
