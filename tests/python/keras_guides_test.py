"""The guide for Keras 3 does what it says."""

import pathlib

import guides

PAGE = guides.GUIDES / "keras-3.md"


def test_guide_does_what_it_says():
    assert {test for test, _, _ in guides.blocks(PAGE)} == {
        str(pathlib.Path(__file__).relative_to(guides.ROOT))
    }
    guides.execute(PAGE)
