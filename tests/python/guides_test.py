"""The guides' blocks work as they stand, one after the other; so do the notebook's cells."""

import contextlib
import io
import pathlib
import warnings

import guides
import pytest
import tensorflow as tf

THIS = str(pathlib.Path(__file__).relative_to(guides.ROOT))
PAGES = sorted(guides.GUIDES.glob("*.md"))
OURS = [page for page in PAGES if any(test == THIS for test, _, _ in guides.blocks(page))]
NOTEBOOK = guides.ROOT / "examples" / "quickstart.ipynb"


@pytest.mark.parametrize("page", OURS, ids=lambda page: page.stem)
def test_guide_does_what_it_says(page):
    if page.stem == "from-tf-keras":
        pytest.importorskip("tf_keras", reason="tf_keras (tools/requirements.txt) is not installed")
    with tf.Graph().as_default(), warnings.catch_warnings():
        guides.execute(page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_all_python_blocks_of_the_guides_are_executed(page):
    written = page.read_text().count("```python\n")
    assert written == len(guides.blocks(page))
    for test, _, _ in guides.blocks(page):
        assert (guides.ROOT / test).exists()


def test_notebook_does_what_it_says():
    printed = io.StringIO()
    names = {"__name__": "__main__"}
    with tf.Graph().as_default(), contextlib.redirect_stdout(printed):
        for number, cell in enumerate(guides.cells(NOTEBOOK)):
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
    assert "Division: sound." in printed.getvalue()
    assert names["stock_accuracy"] > 0.85
    assert abs(names["accuracy"] - names["stock_accuracy"]) < 0.03


def test_notebook_has_no_outputs():
    for cell in guides.cells(NOTEBOOK):
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None
