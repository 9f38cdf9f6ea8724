"""Data sets beside the checkout, in ../shared/data; tests skip without them."""

import pathlib

import pytest

FOLDER = pathlib.Path(__file__).parents[3] / "shared" / "data"


def shared_data(name):
    """Returns the path of a data set; skips the test if there is none."""
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"{path} is not there")
    return path
