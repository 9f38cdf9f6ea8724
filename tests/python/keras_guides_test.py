"""The guide for Keras 3 and the reference do what they say."""

import pathlib

import guides
import pytest

PAGES = [guides.GUIDES / "keras-3.md", guides.ROOT / "docs" / "keras.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_does_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert {test for test, _, _ in guides.blocks(page)} == {
        str(pathlib.Path(__file__).relative_to(guides.ROOT))
    }
    guides.execute(page)
