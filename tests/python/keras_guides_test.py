"""The statements of the guide for Keras 3, the reference and the README's line hold."""

import pathlib
import re

import guides
import keras
import numpy as np
import pytest

import tensorbow

PAGES = [guides.GUIDES / "keras-3.md", guides.ROOT / "docs" / "keras.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_does_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert {test for test, _, _ in guides.blocks(page)} == {
        str(pathlib.Path(__file__).relative_to(guides.ROOT))
    }
    guides.execute(page)


def test_the_line_of_the_readme_trains():
    text = (guides.ROOT / "README.md").read_text()
    line = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)[1]
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    names = {"model": model, "tensorbow": tensorbow}
    exec(line, names)
    names["model"].compile("sgd", "mse")
    names["model"].fit(np.ones((32, 4)), np.ones((32, 1)), batch_size=16, verbose=0)
    assert tensorbow.keras.session_of(names["model"]).samples_seen == 32
