"""Sparse data sets, against scikit-learn's reader and rows made by hand."""

import bz2
import gzip
import lzma
import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from sklearn.datasets import load_svmlight_file

import tensorbow
from tensorbow.data import _libsvm

tf1 = tf.compat.v1

SMALL = "0,2 1:1 3:0.5\n1 2:-2e-3\n2,1,0 # three labels\n# nothing but a remark\n0 1:1 2:2 3:3\n"


def write(folder, text, name="rows.txt", compress=None):
    path = folder / name
    data = text.encode()
    path.write_bytes(data if compress is None else compress(data))
    return path


def elements(dataset):
    """Returns the elements, as a program of TensorFlow 1 reads them."""
    following = tf1.data.make_one_shot_iterator(dataset).get_next()
    with tf1.Session() as session:
        while True:
            try:
                yield session.run(following)
            except tf.errors.OutOfRangeError:
                return


def dense_of(sparse):
    matrix = np.zeros(sparse.dense_shape, np.float32)
    matrix[tuple(sparse.indices.T)] = sparse.values
    return matrix


def dense(dataset):
    """Returns all rows and labels, as dense matrices."""
    x, y = zip(*[(dense_of(x), dense_of(y)) for x, y in elements(dataset)])
    return np.concatenate(x), np.concatenate(y)


@pytest.mark.parametrize("compress", [None, gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("batch_size", [1, 3, 10])
def test_rows_and_labels_are_those_of_the_file(batch_size, compress, tmp_path):
    path = write(tmp_path, SMALL, compress=compress)
    dataset = tensorbow.data.libsvm(path, batch_size, features=3, labels=4)
    x_spec, y_spec = dataset.element_spec
    assert x_spec == tf.SparseTensorSpec([None, 3], tf.float32)
    assert y_spec == tf.SparseTensorSpec([None, 4], tf.float32)
    sizes = [len(dense_of(x)) for x, _ in elements(dataset)]
    assert sizes == {1: [1] * 4, 3: [3, 1], 10: [4]}[batch_size]
    for _ in range(2):  # every pass reads the file again
        x, y = dense(dataset)
        np.testing.assert_array_equal(
            x, np.float32([[1, 0, 0.5], [0, -2e-3, 0], [0, 0, 0], [1, 2, 3]])
        )
        np.testing.assert_array_equal(y, [[1, 0, 1, 0], [0, 1, 0, 0], [1, 1, 1, 0], [1, 0, 0, 0]])


def test_elements_may_be_ragged(tmp_path):
    path = write(tmp_path, SMALL)
    dataset = tensorbow.data.libsvm(path, 3, features=3, labels=4, form="ragged")
    (columns, values), labels = next(elements(dataset))
    assert columns.to_list() == [[0, 2], [1], []]
    assert values.to_list() == [[1, 0.5], [pytest.approx(-2e-3)], []]
    assert labels.to_list() == [[0, 2], [1], [0, 1, 2]]


def test_headers_say_what_there_is_and_number_from_zero(tmp_path):
    first = write(tmp_path, "2 3 4\n0,3 0:1 2:2\n1 1:1", "first")
    second = write(tmp_path, "1 3 4\n2 2:7\n", "second")
    x, y = dense(tensorbow.data.libsvm([first, second], 2))
    np.testing.assert_array_equal(x, [[1, 0, 2], [0, 1, 0], [0, 0, 7]])
    np.testing.assert_array_equal(y, [[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0]])
    with pytest.raises(ValueError, match="says 3 features, got features=5"):
        tensorbow.data.libsvm(first, 2, features=5)
    short = write(tmp_path, "3 3 4\n0 0:1\n1 1:1\n", "short")
    with pytest.raises(tf.errors.InvalidArgumentError, match="says 3 rows, and it has 2"):
        list(elements(tensorbow.data.libsvm(short, 1)))


@pytest.mark.parametrize("blocks", [64, 1000, 1 << 20])
def test_it_reads_what_scikit_learn_reads(blocks, tmp_path, monkeypatch):
    """Also if a block of text ends within a line."""
    monkeypatch.setattr(_libsvm, "BLOCK_BYTES", blocks)
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(200):
        labels = rng.choice(20, size=rng.integers(1, 4), replace=False)
        columns = np.sort(rng.choice(50, size=rng.integers(0, 9), replace=False)) + 1
        features = [f"{c}:{v:.6g}" for c, v in zip(columns, rng.normal(size=len(columns)))]
        lines.append(" ".join([",".join(map(str, labels)), *features]))
    path = write(tmp_path, "\n".join(lines) + "\n")
    x, y = dense(tensorbow.data.libsvm(path, 7, features=50, labels=20))
    wanted, labels = load_svmlight_file(
        str(path), n_features=50, multilabel=True, zero_based=False, dtype=np.float32
    )
    np.testing.assert_array_equal(x, wanted.toarray())
    for row, true in zip(y, labels):
        assert row.nonzero()[0].tolist() == sorted(map(int, true))


def test_bibtex_is_what_scikit_learn_reads():
    path = pathlib.Path(__file__).parents[3] / "shared" / "data" / "bibtex_test.libsvm.gz"
    if not path.exists():
        pytest.skip("no Bibtex data set here")
    x, y = dense(tensorbow.data.libsvm(path, 512, features=1836, labels=159))
    wanted, labels = load_svmlight_file(str(path), n_features=1836, multilabel=True)
    np.testing.assert_array_equal(x, wanted.toarray())
    assert [row.nonzero()[0].tolist() for row in y] == [sorted(map(int, t)) for t in labels]


def test_shuffling_keeps_every_row_once(tmp_path):
    text = "".join(f"{i % 5} {i % 7 + 1}:{i}\n" for i in range(100))
    path = write(tmp_path, text)

    def values(**options):
        dataset = tensorbow.data.libsvm(path, 8, features=7, labels=5, **options)
        return [float(v) for x, _ in elements(dataset) for v in x.values]

    assert values() == list(range(100))
    for shuffle in (10, 33, 100, 1000):
        mixed = values(shuffle=shuffle, seed=1)
        assert sorted(mixed) == list(range(100)) and mixed != sorted(mixed)
        assert values(shuffle=shuffle, seed=1) == mixed != values(shuffle=shuffle, seed=2)
        for begin in range(0, 100, shuffle):  # within blocks
            block = mixed[begin : begin + shuffle]
            assert min(block) >= begin and max(block) < begin + shuffle
    dataset = tensorbow.data.libsvm(path, 100, features=7, labels=5, shuffle=100)
    for x, y in elements(dataset):  # labels and features stay together
        rows = dense_of(x).sum(1).astype(int)
        assert (dense_of(y).argmax(1) == rows % 5).all()


@pytest.mark.parametrize(
    "line, why",
    [
        ("", "it is empty"),
        (" 1:1", "it has no labels"),
        ("1:1 2:1", "it has no labels"),
        ("x 1:1", "got labels 'x', wanted integers"),
        ("1,,2 1:1", "got labels '1,,2', wanted integers"),
        ("1.5 1:1", r"got labels '1\.5', wanted integers"),
        ("4 1:1", "got label 4, wanted 0 to 3"),
        ("-1 1:1", "got label -1, wanted 0 to 3"),
        ("1,2,1 1:1", "got label 1 twice"),
        ("1 0:1", "got feature 0, wanted 1 to 3"),
        ("1 4:1", "got feature 4, wanted 1 to 3"),
        ("1 2:1 2:1", "got feature 2 twice"),
        ("1 2:1 1:1", "got feature 1 after 2, wanted ascending ones"),
        ("1 2:", "got '2:', wanted feature:value"),
        ("1 2:x", "got '2:x', wanted feature:value"),
        ("1 2:1x", "got '2:1x', wanted feature:value"),
        ("1 2:nan", "got '2:nan', wanted feature:value"),
        ("1 2:1e99", "got '2:1e99', wanted feature:value"),
        ("1 2 3:1", "got '2', wanted feature:value"),
        ("1 qid:3 1:1", "got 'qid:3', wanted feature:value"),
        ("1 99999999999999999999:1", "got '99999999999999999999:1', wanted feature:value"),
    ],
)
def test_a_line_that_is_no_row_is_named(line, why, tmp_path):
    path = write(tmp_path, f"0 1:1\n# remark\n{line}\n0 1:1\n")
    dataset = tensorbow.data.libsvm(path, 1, features=3, labels=4)
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"rows.txt, line 3: {why}"):
        list(elements(dataset))


def test_rows_without_labels_may_be_kept(tmp_path):
    path = write(tmp_path, " 1:1\n2:1\n0 3:1\n")
    x, y = dense(tensorbow.data.libsvm(path, 2, features=3, labels=2, unlabelled="keep"))
    np.testing.assert_array_equal(x, np.eye(3))
    np.testing.assert_array_equal(y, [[0, 0], [0, 0], [1, 0]])


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_files_that_are_cut_off_are_told(compress, tmp_path):
    long = "".join(f"0 {i % 3 + 1}:{i}.25\n" for i in range(5000)).encode()
    path = tmp_path / "rows"
    told = (ValueError, tf.errors.InvalidArgumentError)  # by the first line, or a later one
    for whole, less in ((compress(long), 20), (compress(b"0 1:1\n"), 10)):
        path.write_bytes(whole[:-less])
        with pytest.raises(told, match="cut off or damaged"):
            list(elements(tensorbow.data.libsvm(path, 100, features=3, labels=1)))


@pytest.mark.parametrize("header", ["0 0 5", "-1 3 4", "3 3 0"])
def test_broken_headers(header, tmp_path):
    path = write(tmp_path, f"{header}\n0 0:1\n")
    with pytest.raises(ValueError, match="line 1: got the header"):
        tensorbow.data.libsvm(path, 1)


@pytest.mark.parametrize(
    "change, error",
    [
        ({"batch_size": 0}, "batch_size must be an int of at least 1"),
        ({"features": None}, "has no header .* give features= and labels="),
        ({"labels": 2.0}, "labels must be an int"),
        ({"unlabelled": "skip"}, 'must be "error" or "keep"'),
        ({"form": "dense"}, 'must be "sparse" or "ragged"'),
        ({"paths": []}, "got no paths"),
    ],
)
def test_wrong_arguments(change, error, tmp_path):
    arguments = {"paths": write(tmp_path, SMALL), "batch_size": 2, "features": 3, "labels": 4}
    with pytest.raises(ValueError, match=error):
        tensorbow.data.libsvm(**(arguments | change))
    with pytest.raises(FileNotFoundError, match="there is no file"):
        tensorbow.data.libsvm(os.path.join(tmp_path, "none"), 1, features=1, labels=1)


def test_a_session_trains_on_it(tmp_path):
    text = "".join(f"{i % 3} {i % 3 + 1}:1\n" for i in range(96))
    path = write(tmp_path, text)
    graph = tf.Graph()
    with graph.as_default():
        rows = tensorbow.data.libsvm(path, 8, features=3, labels=3)
        x, y = tf1.data.make_one_shot_iterator(rows).get_next()
        w = tf1.get_variable("w", initializer=np.zeros((3, 3), np.float32))
        logits = tf.sparse.sparse_dense_matmul(x, w)
        labels = tf.sparse.to_dense(y)
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels, logits))
        train = tf1.train.GradientDescentOptimizer(1.0).minimize(loss)
        init = tf1.global_variables_initializer()
    options = tensorbow.Options(learners_per_device=2)
    with tensorbow.TensorBowSession(graph=graph, options=options) as session:
        session.run(init)
        with pytest.raises(tf.errors.OutOfRangeError):
            while True:
                session.run(train)
        assert (session.iterations, session.samples_seen) == (12, 96)
        assert (np.argmax(session.run(w), axis=1) == [0, 1, 2]).all()
