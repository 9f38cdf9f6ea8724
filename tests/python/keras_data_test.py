"""Every kind of data for fit(): a batch is a step, divided among the learners by rows."""

import dataclasses
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras_models import (
    LOSS,
    ROWS,
    assert_same_state,
    classifier,
    independent,
    logistic,
    options,
    small,
)

import tensorbow
from tensorbow.keras import learner_value, session_of
from tests.python.divided_programs import in_turn

COUNT = 5 * ROWS
UNEVEN = COUNT + 3  # the last step has two rows for one learner and one for the other
SHORT = COUNT + 1  # the last step has a row for one learner alone


class Sequence(keras.utils.PyDataset):
    """Batches of arrays."""

    def __init__(self, images, labels):
        super().__init__()
        self._data = images, labels

    def __len__(self):
        return -(-len(self._data[0]) // ROWS)

    def __getitem__(self, k):
        return tuple(a[k * ROWS : (k + 1) * ROWS] for a in self._data)


def generator(images, labels):
    for k in range(0, len(images), ROWS):
        yield images[k : k + ROWS], labels[k : k + ROWS]


KINDS = {
    "numpy": lambda x, y: dict(x=x, y=y, batch_size=ROWS, shuffle=False),
    "float64": lambda x, y: dict(x=x.astype(np.float64), y=y, batch_size=ROWS, shuffle=False),
    "big endian": lambda x, y: dict(x=x.astype(">f4"), y=y, batch_size=ROWS, shuffle=False),
    "tensors": lambda x, y: dict(
        x=tf.constant(x), y=tf.constant(y), batch_size=ROWS, shuffle=False
    ),
    "shuffled": lambda x, y: dict(x=x, y=y, batch_size=ROWS, shuffle=True),
    "batch shuffled": lambda x, y: dict(x=x, y=y, batch_size=ROWS, shuffle="batch"),
    "tf.data": lambda x, y: dict(x=tf.data.Dataset.from_tensor_slices((x, y)).batch(ROWS)),
    "PyDataset": lambda x, y: dict(x=Sequence(x, y), shuffle=False),
    "generator": lambda x, y: dict(x=generator(x, y)),
    "unknown length": lambda x, y: dict(
        x=tf.data.Dataset.from_tensor_slices((x, y)).batch(ROWS).filter(lambda *_: True)
    ),
}


@pytest.mark.parametrize("kind, rows", in_turn(KINDS, [UNEVEN, SHORT, COUNT]))
def test_every_row_is_trained_on_once(kind, rows, digits):
    x, y = digits[0][:rows], digits[1][:rows]
    model = logistic(options(), rate=0.0)
    expected = float(LOSS(y, model(x)))
    history = model.fit(**KINDS[kind](x, y), epochs=1, verbose=0).history
    session = session_of(model)
    assert session.samples_seen == rows
    assert session.iterations == -(-rows // ROWS)
    assert session.learning_tasks == 2 * 5 + min(2, rows % ROWS)
    assert history["loss"][0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("kind", ["numpy", "shuffled", "tf.data", "PyDataset"])
def test_one_learner_equals_stock_on_all_of_it(kind, digits):
    x, y = digits[0][:UNEVEN], digits[1][:UNEVEN]
    models, histories = [], []
    for given in (None, independent()):
        model = classifier(given, "adam", small)
        fitted = model.fit(**KINDS[kind](x, y), epochs=2, verbose=0, validation_data=(x, y))
        models.append(model)
        histories.append(fitted.history)
    assert histories[0] == histories[1]
    assert_same_state(models[1], models[0])


def test_validation_split_and_class_weights(digits):
    x, y = digits[0][:200], digits[1][:200]
    weights = {k: 1.0 + k / 10 for k in range(10)}
    histories = []
    for given in (None, independent()):
        model = logistic(given, weighted_metrics=["accuracy"])
        fitted = model.fit(
            x, y, batch_size=8, epochs=2, verbose=0, validation_split=0.2, class_weight=weights
        )
        histories.append(fitted.history)
    assert histories[0] == histories[1]
    assert "val_loss" in histories[0]


def test_sample_weights_reach_the_learners(digits):
    x, y = digits[0][:64], digits[1][:64]
    weights = np.where(np.arange(64) < 32, 1.0, 0.0).astype(np.float32)
    model = logistic(options(), rate=0.0)
    expected = float(LOSS(y, model(x), sample_weight=weights))
    history = model.fit(x, y, sample_weight=weights, batch_size=8, verbose=0)
    assert history.history["loss"][0] == pytest.approx(expected, rel=1e-5)


def test_steps_per_epoch_takes_no_more(digits):
    x, y = digits[0][: 10 * ROWS], digits[1][: 10 * ROWS]
    model = logistic(options())
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(ROWS)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Your input ran out of data")
        model.fit(dataset, steps_per_epoch=5, epochs=2, verbose=0)
    assert session_of(model).samples_seen == 10 * ROWS
    model.fit(x, y, batch_size=ROWS, steps_per_epoch=3, epochs=2, verbose=0)
    assert session_of(model).iterations == 16


def test_several_fits_go_on_with_one_session(digits):
    x, y = digits[0][:COUNT], digits[1][:COUNT]
    model = logistic(options())
    model.fit(x, y, batch_size=ROWS, verbose=0)
    first = session_of(model)
    model.fit(x, y, batch_size=4, verbose=0)
    assert session_of(model) is first
    assert first.iterations == 5 + 20


@pytest.mark.parametrize(
    "rows_of_task, tasks", [(4, [4] * 4), (6, [6, 6, 4]), (16, [16]), (40, [16])]
)
def test_options_cut_a_step_into_tasks_of_so_many_rows(rows_of_task, tasks, digits):
    x, y = digits[0][:ROWS], digits[1][:ROWS]
    model = logistic(independent(), rate=0.2)
    tensorbow.keras.replicate(model, dataclasses.replace(independent(), batch_size=rows_of_task))
    model.fit(x, y, batch_size=ROWS, shuffle=False, verbose=0)
    assert session_of(model).learning_tasks == len(tasks)
    # One learner takes one after the other.
    stock = logistic(rate=0.2)
    for k, rows in enumerate(tasks):
        own = slice(sum(tasks[:k]), sum(tasks[:k]) + rows)
        stock.train_on_batch(x[own], y[own])
    for ours, theirs in zip(model.get_weights(), stock.get_weights()):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("rows", [32, 31, 1])
def test_train_on_batch_shares_out_its_rows(rows, digits):
    x, y = digits[0][:rows], digits[1][:rows]
    model = logistic(options(), rate=0.0)
    loss, accuracy = model.train_on_batch(x, y)
    expected = model.test_on_batch(x, y)
    assert [loss, accuracy] == pytest.approx(expected, rel=1e-5)
    assert session_of(model).samples_seen == rows
    assert session_of(model).learning_tasks == min(rows, 2)


def test_batches_of_different_lengths_are_divided():
    """Sequences padded batch by batch."""
    lengths = [4, 4, 7, 5]

    def elements():
        for length in lengths:
            yield np.ones([8, length, 2], np.float32), np.ones([8, 1], np.float32)

    spec = (tf.TensorSpec([None, None, 2], tf.float32), tf.TensorSpec([None, 1], tf.float32))
    model = keras.Sequential(
        [keras.Input((None, 2)), keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(1)]
    )
    tensorbow.keras.replicate(model, options())
    model.compile("sgd", "mse")
    model.fit(tf.data.Dataset.from_generator(elements, output_signature=spec), verbose=0)
    assert session_of(model).learning_tasks == 8
    assert session_of(model).iterations == 4


class Pair(keras.Model):
    """A model of two arrays, or an array and a scalar, with perhaps different numbers of rows."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)
        self.dense.build((None, 3))

    def train_step(self, data):
        first, second = data[:2]
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(self.dense(first) ** 2)
            if second.shape.rank:
                second = tf.reduce_mean(self.dense(second))
            loss += second * tf.reduce_mean(self.dense(first))
        weights = self.trainable_weights
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return {"loss": loss}


def train_pairs(given, form, first, second):
    """Trains on 4 elements; they are [*shape of one element] of normal numbers."""
    random = np.random.default_rng(0)
    elements = [[random.standard_normal(s).astype("f") for s in (first, second)] for _ in range(4)]
    keras.utils.set_random_seed(2)
    model = Pair()
    if given is not None:
        tensorbow.keras.replicate(model, given)
    model.compile("sgd")
    if form == "tf.data":
        arrays = tuple(np.stack(parts) for parts in zip(*elements))
        model.fit(tf.data.Dataset.from_tensor_slices(arrays), verbose=0)
    else:
        for element in elements:
            model.train_on_batch(*element)
    return model


@pytest.mark.parametrize("synchroniser", [tensorbow.SMA(), tensorbow.SSGD()], ids=["SMA", "SSGD"])
@pytest.mark.parametrize("form", ["tf.data", "train_on_batch"])
def test_an_element_of_different_numbers_of_rows_is_one_learners(form, synchroniser):
    stock = train_pairs(None, form, (8, 3), (4, 3))
    with pytest.warns(tensorbow.TensorBowWarning, match="8 rows.*has 4"):
        model = train_pairs(options(synchroniser=synchroniser), form, (8, 3), (4, 3))
    session = session_of(model)
    assert (session.iterations, session.learning_tasks, session.samples_seen) == (4, 4, 32)
    for ours, theirs in zip(model.get_weights(), stock.get_weights()):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("form", ["tf.data", "train_on_batch"])
def test_every_learner_gets_a_scalar_beside_its_rows(form):
    stock = train_pairs(None, form, (8, 3), ())
    model = train_pairs(options(synchroniser=tensorbow.SSGD()), form, (8, 3), ())
    session = session_of(model)
    assert (session.iterations, session.learning_tasks, session.samples_seen) == (4, 8, 32)
    for ours, theirs in zip(model.get_weights(), stock.get_weights()):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("form", ["tf.data", "train_on_batch"])
def test_strings_are_divided_by_the_same_rows_as_numbers(form):
    """37 rows for three learners, whose models are not averaged."""
    words = np.array([f"w{k % 13}" for k in range(37)])[:, None]
    numbers = np.arange(37, dtype=np.int32)[:, None] % 13
    classes = np.arange(37) % 3
    replicas = []
    for inputs, dtype in ((words, "string"), (numbers, "int32")):
        keras.utils.set_random_seed(1)
        given = keras.Input((1,), dtype=dtype)
        table = tf.constant(np.eye(13, dtype=np.float32))

        def one_hot(x, table=table, dtype=dtype):
            if dtype == "string":
                x = tf.strings.to_number(tf.strings.substr(x, 1, 2), tf.int32)
            return tf.gather(table, x[:, 0])

        hot = keras.layers.Lambda(one_hot, output_shape=(13,))(given)
        model = keras.Model(given, keras.layers.Dense(3)(hot))
        tensorbow.keras.replicate(model, independent(3))
        model.compile("sgd", LOSS)
        if form == "tf.data":
            data = tf.data.Dataset.from_tensor_slices((inputs, classes)).batch(37)
            model.fit(data, verbose=0)
        else:
            model.train_on_batch(inputs, classes)
        assert session_of(model).learning_tasks == 3
        kernel = model.weights[0]
        replicas.append([learner_value(model, kernel, j) for j in range(3)])
    np.testing.assert_array_equal(*replicas)


def test_arrays_that_do_not_fit_together_get_kerass_words(digits):
    model = logistic(options())
    with pytest.raises(ValueError, match="cardinality"):
        model.fit(digits[0][:32], digits[1][:31], verbose=0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="31"):
        model.train_on_batch(digits[0][:32], digits[1][:31])
    with pytest.warns(tensorbow.TensorBowWarning, match="has 31"):
        model.train_on_batch(digits[0][:32], digits[1][:32])
    assert session_of(model).learning_tasks == 2
