"""The benchmark of sparse rows: its data, its contenders for a few steps, its tables."""

import pathlib
import sys

import numpy as np
import pytest
from tensorflow.python.eager import context

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "benchmarks"))

import power_law
import sparse
import sparse_contenders

from tensorbow.data import _libsvm


def test_rows_have_the_statistics_that_are_asked_for(tmp_path):
    statistics = power_law.AMAZON_670K.scaled(0.01)
    assert (statistics.labels, statistics.features, statistics.rows) == (6701, 1359, 4904)
    data = power_law.rows(statistics, 400, seed=3)
    features, labels = np.diff(data.ends), np.diff(data.label_ends)
    assert features.mean() == pytest.approx(75, abs=2) and features.min() >= 1
    assert labels.mean() == pytest.approx(5.45, abs=0.5) and labels.min() >= 1
    often = np.sort(np.bincount(data.columns, minlength=1359))[::-1]
    assert often[0] > 5 * often[100] > 5 * often[1000]  # a few are frequent
    for begin, end in zip(data.ends, data.ends[1:]):
        assert (np.diff(data.columns[begin:end]) > 0).all()
        assert np.linalg.norm(data.values[begin:end]) == pytest.approx(1, abs=1e-5)

    path = tmp_path / "rows.txt"
    power_law.write(path, data, statistics, repeat=2)
    file = _libsvm.Files([str(path)], None, None, None, "error")
    read = _libsvm.Rows.together(list(file.blocks()))
    assert len(read) == 800
    np.testing.assert_array_equal(read.columns, np.tile(data.columns, 2))
    np.testing.assert_array_equal(read.labels, np.tile(data.labels, 2))
    np.testing.assert_allclose(read.values, np.tile(data.values, 2), atol=1e-6)


def test_contenders_train_and_tell_their_memory():
    for settings in ({}, {"learners": 2, "synchroniser": "SMA"}):
        step = sparse_contenders.sparse_session("any", 16, features=600, hidden=8, **settings)
        step(2)
        assert 0 <= step.value() < 2**33


def test_readers_go_through_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(power_law, "AMAZON_670K", power_law.AMAZON_670K.scaled(0.01))
    settings = sparse._file(str(tmp_path), 30)
    with context.eager_mode():
        for model in ("loop", "session", "shuffled", "ragged", "scikit-learn", "bytes"):
            step = sparse_contenders.sparse_reader(model, 30, **settings)
            step(1)
            step(2)
            assert step.value() > 0
        found = sparse_contenders.resident_while_streaming(**settings, rows=30)
    assert found["rows"] == [30] and found["resident"][0] > 0
