"""The blocks of guides and reference work unchanged, one after the other; so do the notebook's
cells."""

import contextlib
import gzip
import io
import pathlib
import re
import warnings

import guides
import numpy as np
import pytest
import tensorflow as tf

import tensorbow

tf1 = tf.compat.v1

THIS = str(pathlib.Path(__file__).relative_to(guides.ROOT))
PAGES = sorted(guides.GUIDES.glob("*.md"))
REFERENCE = sorted((guides.ROOT / "docs").glob("*.md"))
OURS = [
    page for page in [*PAGES, *REFERENCE] if any(test == THIS for test, _, _ in guides.blocks(page))
]
NOTEBOOK = guides.ROOT / "examples" / "quickstart.ipynb"


@pytest.mark.parametrize("page", OURS, ids=lambda page: page.stem)
def test_page_does_what_it_says(page):
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


def observability():
    """Returns the page's preconditions: a session that trains."""
    x = tf1.placeholder(tf.float32, [None, 4])
    w = tf1.get_variable("w", [4, 1])
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - 1))
    train_op = tf1.train.AdamOptimizer(0.01).minimize(loss)
    sess = tensorbow.TensorBowSession(options=tensorbow.Options(learners_per_device=2))
    sess.run(tf1.global_variables_initializer())
    rows = np.ones([32, 4], np.float32)
    return dict(sess=sess, train_op=train_op, batch=lambda: {x: rows})


def adaptive():
    """Returns a program, its mega-batches, and a file of sparse rows."""
    x = tf1.placeholder(tf.float32, [None, 4])
    y = tf1.placeholder(tf.float32, [None, 1])
    w = tf1.get_variable("w", [4, 1])
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - y))
    train = tf1.train.AdamOptimizer(0.01).minimize(loss)
    mega_batches = [(np.ones([6400, 4], np.float32), np.ones([6400, 1], np.float32))] * 2
    with gzip.open("train.txt.gz", "wt") as file:
        file.write("2 10 4\n1,2 0:1.5 3:2\n0 1:1\n")
    init = tf1.global_variables_initializer()
    return dict(
        tensorbow=tensorbow, tf=tf, x=x, y=y, train=train, init=init, mega_batches=mega_batches
    )


@pytest.mark.parametrize("prepare", [observability, adaptive], ids=lambda f: f.__name__)
def test_reference_does_what_it_says(prepare, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = guides.ROOT / "docs" / f"{prepare.__name__}.md"
    found = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S)
    assert found
    with tf.Graph().as_default(), contextlib.redirect_stdout(io.StringIO()):
        names = prepare()
        for block in found:
            exec(compile(block, page.name, "exec"), names)
        if "sess" in names:
            names["sess"].close()


def test_notebook_does_what_it_says():
    printed = io.StringIO()
    names = {"__name__": "__main__"}
    with tf.Graph().as_default(), contextlib.redirect_stdout(printed):
        for number, cell in enumerate(guides.cells(NOTEBOOK)):
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
    assert re.search(r"^Division: (exact|sound)\.$", printed.getvalue(), re.M)
    assert names["accuracy"]["tf.Session"] > 0.85
    assert abs(names["accuracy"]["2 learners"] - names["accuracy"]["tf.Session"]) < 0.03


def test_outputs_of_the_notebook_are_of_one_execution_that_gained():
    """tools/execute_notebook.py writes all of them, or none has been written yet."""
    code = [cell for cell in guides.cells(NOTEBOOK) if cell["cell_type"] == "code"]
    counts = [cell["execution_count"] for cell in code]
    if counts == [None] * len(code):
        assert [cell["outputs"] for cell in code] == [[]] * len(code)
        return
    assert counts == list(range(1, len(code) + 1))
    for cell in code:
        assert bool(cell["outputs"]) == ("print(" in "".join(cell["source"]))
    shown = "".join("".join(o["text"]) for cell in code for o in cell["outputs"])
    assert re.search(r"^Division: (exact|sound)\.$", shown, re.M)
    (gain,) = re.findall(r"^two learners train ([\d.]+) times as fast$", shown, re.M)
    assert float(gain) > 1.5
    assert len(set(re.findall(r"test accuracy (\S+)", shown))) == 1
