"""The data set that cuts compressed sparse rows into batches of sparse tensors."""

import numpy as np
import pytest
import tensorflow as tf
from data_test import dense_of, elements
from tensorflow.python.eager import context

import tensorbow
from tensorbow.data import _SparseBatches

tf1 = tf.compat.v1
COLUMNS, LABELS = 5, 3


def group(first, rows):
    """Makes rows that show their number: row r has r % 3 values of r + 1, and r % 2 labels."""
    numbers = np.arange(first, first + rows)
    ends = np.append(0, np.cumsum(numbers % 3))
    label_ends = np.append(0, np.cumsum(numbers % 2))
    columns = np.concatenate([np.arange(r % 3) + r % 2 for r in numbers]).astype(np.int64)
    values = np.repeat(numbers + 1, numbers % 3).astype(np.float32)
    labels = (numbers[numbers % 2 == 1] % LABELS).astype(np.int64)
    return ends, columns, values, label_ends, labels


def dense_group(first, rows):
    x, y = np.zeros((rows, COLUMNS), np.float32), np.zeros((rows, LABELS), np.float32)
    for i, r in enumerate(range(first, first + rows)):
        x[i, r % 2 : r % 2 + r % 3] = r + 1
        y[i, r % LABELS] = r % 2
    return x, y


def of_groups(groups):
    """Makes a data set of them, without Python, so that its position can be saved."""
    dataset = tf.data.Dataset.from_tensors(groups[0])
    for more in groups[1:]:
        dataset = dataset.concatenate(tf.data.Dataset.from_tensors(more))
    return dataset


def sizes(dataset):
    return [len(dense_of(x)) for x, _ in elements(dataset)]


def test_every_group_is_cut_apart():
    dataset = _SparseBatches(
        of_groups([group(0, 7), group(7, 4), group(11, 1)]), 4, COLUMNS, LABELS
    )
    assert dataset.element_spec == (
        tf.SparseTensorSpec([None, COLUMNS], tf.float32),
        tf.SparseTensorSpec([None, LABELS], tf.float32),
    )
    found = list(elements(dataset))
    first = 0
    for (x, y), rows in zip(found, [4, 3, 4, 1], strict=True):
        wanted = dense_group(first, rows)
        np.testing.assert_array_equal(dense_of(x), wanted[0])
        np.testing.assert_array_equal(dense_of(y), wanted[1])
        assert (np.diff(x.indices @ [COLUMNS, 1]) > 0).all()  # in TensorFlow's order
        first += rows


def test_rows_may_be_empty_and_have_no_labels():
    ends, none = np.zeros(4, np.int64), np.zeros(0, np.int64)
    empty = (ends, none, np.zeros(0, np.float32), ends, none)
    nothing = (ends[:1], none, np.zeros(0, np.float32), ends[:1], none)
    dataset = _SparseBatches(of_groups([nothing, empty, nothing]), 2, COLUMNS, LABELS)
    found = list(elements(dataset))
    assert [tuple(x.dense_shape) for x, _ in found] == [(2, COLUMNS), (1, COLUMNS)]
    assert [tuple(y.dense_shape) for _, y in found] == [(2, LABELS), (1, LABELS)]
    assert all(len(x.values) == len(y.values) == 0 for x, y in found)
    assert sizes(_SparseBatches(of_groups([nothing]), 2, COLUMNS, LABELS)) == []


def test_it_is_a_data_set_like_others():
    dataset = _SparseBatches(of_groups([group(0, 9), group(9, 3)]), 2, COLUMNS, LABELS)
    assert sizes(dataset) == [2, 2, 2, 2, 1, 2, 1]
    assert sizes(dataset.take(2).repeat(2).prefetch(2)) == [2, 2, 2, 2]
    assert sizes(dataset.shard(2, 1)) == [2, 2, 2]
    assert sorted(sizes(dataset.shuffle(4, seed=1))) == [1, 1, 2, 2, 2, 2, 2]
    assert sizes(dataset.cache().repeat(2)) == 2 * [2, 2, 2, 2, 1, 2, 1]
    assert sizes(dataset.map(lambda x, y: (tf.sparse.reorder(x), y))) == [2, 2, 2, 2, 1, 2, 1]


def test_iterators_side_by_side_do_not_know_each_other():
    with context.eager_mode():
        dataset = _SparseBatches(of_groups([group(0, 5), group(5, 5)]), 2, COLUMNS, LABELS)
        one, other = iter(dataset), iter(dataset)
        wanted = [tuple(x.values.numpy()) for x, _ in dataset]
        assert len(wanted) == 6
        assert [tuple(next(one)[0].values.numpy()) for _ in range(4)] == wanted[:4]
        assert [tuple(x.values.numpy()) for x, _ in other] == wanted
        assert [tuple(x.values.numpy()) for x, _ in one] == wanted[4:]


@pytest.mark.parametrize("taken", range(7))
@pytest.mark.parametrize("around", ["nothing", "prefetch", "shuffle"])
def test_an_iterator_is_saved_where_it_is(taken, around, tmp_path):
    """Saves within a group, between two, and at the end."""
    with context.eager_mode():
        dataset = _SparseBatches(of_groups([group(0, 5), group(5, 6)]), 2, COLUMNS, LABELS)
        if around == "prefetch":
            dataset = dataset.prefetch(2)
        elif around == "shuffle":
            dataset = dataset.shuffle(3, seed=1, reshuffle_each_iteration=False)
        wanted = [tuple(x.values.numpy()) for x, _ in dataset]
        assert len(wanted) == 6
        iterator = iter(dataset)
        for _ in range(min(taken, 6)):
            next(iterator)
        if taken == 6:
            assert next(iterator, None) is None
        path = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "at"))
        assert [tuple(x.values.numpy()) for x, _ in iterator] == wanted[taken:]
        again = iter(dataset)
        next(again)
        tf.train.Checkpoint(iterator=again).restore(path)
        assert [tuple(x.values.numpy()) for x, _ in again] == wanted[taken:]


def test_an_iterator_over_files_is_not_saved(tmp_path):
    """Python reads them; TensorFlow refuses that for every from_generator."""
    path = tmp_path / "rows.txt"
    path.write_text("0 1:1\n1 2:1\n")
    with context.eager_mode():
        iterator = iter(tensorbow.data.libsvm(path, 1, features=2, labels=2))
        next(iterator)
        with pytest.raises(tf.errors.FailedPreconditionError, match="PyFunc is stateful"):
            tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "at"))


def test_initializable_iterators_begin_again(tmp_path):
    path = tmp_path / "rows.txt"
    path.write_text("".join(f"0 1:{i}\n" for i in range(5)))
    graph = tf.Graph()
    with graph.as_default():
        dataset = tensorbow.data.libsvm(path, 2, features=2, labels=2)
        iterator = tf1.data.make_initializable_iterator(dataset)
        x, _ = iterator.get_next()
    with tf1.Session(graph=graph) as session:
        for _ in range(2):
            session.run(iterator.initializer)
            assert session.run(x.values).tolist() == [0, 1]
            assert session.run(x.values).tolist() == [2, 3]


def test_iterators_that_are_dropped_half_way_leave_nothing_behind(tmp_path):
    """Python's threads are at work, and a file is longer than a block."""
    path = tmp_path / "rows.txt"
    path.write_text("".join(f"0 1:{i}.5 2:3.25\n" for i in range(20_000)))
    with context.eager_mode():
        dataset = tensorbow.data.libsvm(path, 32, features=2, labels=2).prefetch(4)
        for _ in range(20):
            x, _ = next(iter(dataset))
            assert x.values.numpy()[2] == 1.5


def wrong_groups():
    ends, columns, values, label_ends, labels = group(0, 4)
    yield (ends[:-1], columns, values, label_ends, labels), "Got 3 rows and 4 rows of labels"
    yield (ends, columns + 4, values, label_ends, labels), "columns below 5"
    yield (ends, columns - 2, values, label_ends, labels), "columns below 5"
    yield (ends, columns, values[1:], label_ends, labels), "where the columns do"
    yield (ends, columns, values, label_ends, labels + 3), "labels below 3"
    yield (ends[::-1].copy(), columns, values, label_ends, labels), "one after the other"
    yield (ends[:0], columns, values, label_ends, labels), "Got 0 rows"
    yield (ends[None], columns, values, label_ends, labels), "wanted rows"


@pytest.mark.parametrize("number", range(8))
def test_groups_that_are_none_are_refused(number):
    wrong, why = list(wrong_groups())[number]
    dataset = _SparseBatches(of_groups([group(0, 2), wrong]), 2, COLUMNS, LABELS)
    found = elements(dataset)
    next(found)
    with pytest.raises(tf.errors.InvalidArgumentError, match=why):
        next(found)


def test_other_elements_and_batches_are_refused():
    def run(dataset, rows):
        with tf1.Session() as session:
            session.run(_SparseBatches(dataset, rows, COLUMNS, LABELS)._variant_tensor)

    with pytest.raises(tf.errors.InvalidArgumentError, match="Got batches of 0 rows"):
        run(of_groups([group(0, 2)]), 0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Got a data set of int32, wanted"):
        run(tf.data.Dataset.from_tensors(np.int32(1)), 2)
