"""Every kind of Keras model: built in any way, with any train_step, losses and outputs."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras_models import LOSS, ROWS, assert_same_state, independent, options

import tensorbow
from tensorbow.keras import learner_value, session_of

layers = keras.layers
OPTIONS = {"stock": None, "one": independent(), "two": options()}


def digits_of(data, count=4 * ROWS):
    return data[0][:count], data[1][:count]


def compare(make, data, fit=None, **compiled):
    """Compares stock and one learner, and trains two learners; returns the three models."""
    models, histories = [], []
    for given in OPTIONS.values():
        keras.utils.set_random_seed(11)
        model = make()
        if given is not None:
            model = tensorbow.keras.replicate(model, given)
        model.compile(**{"optimizer": "adam", "loss": LOSS, **compiled})
        with warnings.catch_warnings():
            warnings.simplefilter("error", tensorbow.TensorBowWarning)
            history = model.fit(*data, batch_size=ROWS, verbose=0, **(fit or {})).history
        models.append(model)
        histories.append(history)
    assert histories[0] == histories[1]
    assert_same_state(models[1], models[0])
    assert session_of(models[2]).iterations == len(keras.tree.flatten(data)[0]) // ROWS
    for variable in models[2].trainable_variables:
        if variable.ndim > 1:
            replicas = [learner_value(models[2], variable, j) for j in range(2)]
            assert not np.array_equal(*replicas), variable.path
    return models


def dense(units=10):
    return keras.Sequential([layers.Flatten(), layers.Dense(units)])


class Subclassed(keras.Model):
    """A model with layers made in the constructor, weights in the first call, and add_loss."""

    def __init__(self):
        super().__init__()
        self.inner = dense(16)  # a nested model
        self.head = layers.Dense(10, kernel_regularizer="l2")

    def call(self, images, training=False):
        hidden = keras.ops.relu(self.inner(images))
        self.add_loss(1e-3 * keras.ops.mean(keras.ops.square(hidden)))
        return self.head(hidden)


def test_a_sequential_model_without_input_shape(digits):
    compare(dense, digits_of(digits))


def test_a_subclassed_model_with_nested_models_and_add_loss(digits):
    compare(Subclassed, digits_of(digits), metrics=["accuracy"])


def test_several_inputs_outputs_and_losses(digits):
    x, y = digits_of(digits)

    def make():
        a, b = keras.Input((8, 8, 1), name="a"), keras.Input((8, 8, 1), name="b")
        hidden = layers.Dense(12, "relu", name="_hidden")(layers.Flatten()(a + b))
        outputs = {"digit": layers.Dense(10, name="digit")(hidden), "odd": layers.Dense(1)(hidden)}
        return keras.Model({"a": a, "b": b}, outputs)

    data = {"a": x, "b": x[::-1].copy()}, {"digit": y, "odd": (y % 2).astype(np.float32)[:, None]}
    compare(
        make,
        data,
        loss={"digit": LOSS, "odd": keras.losses.BinaryCrossentropy(from_logits=True)},
        loss_weights={"digit": 1.0, "odd": 0.3},
        metrics={"digit": "accuracy", "odd": keras.metrics.AUC(from_logits=True)},
    )


def test_recurrent_and_embedding_layers():
    random = np.random.default_rng(0)
    words, classes = random.integers(0, 50, [4 * ROWS, 12]), random.integers(0, 10, 4 * ROWS)

    def make():
        inputs = keras.Input((12,), dtype="int32")
        x = layers.Embedding(50, 8)(inputs)
        return keras.Model(inputs, layers.Dense(10)(layers.GRU(8)(x)))

    compare(make, (words.astype(np.int32), classes.astype(np.int32)))


def test_frozen_layers_stay_as_they_are(digits):
    def make():
        model = keras.Sequential(
            [keras.Input((8, 8, 1)), layers.Flatten(), layers.Dense(12), layers.Dense(10)]
        )
        model.layers[1].trainable = False
        return model

    models = compare(make, digits_of(digits))
    fresh = make()
    keras.utils.set_random_seed(11)
    frozen = make().layers[1].get_weights()[0]
    del fresh
    np.testing.assert_array_equal(models[2].layers[1].get_weights()[0], frozen)


def test_mixed_precision_with_loss_scaling(digits):
    def make():
        return keras.Sequential(
            [
                keras.Input((8, 8, 1)),
                layers.Flatten(),
                layers.Dense(10, dtype="mixed_float16"),
                layers.Activation("linear", dtype="float32"),
            ]
        )

    scaled = lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01))  # noqa: E731
    for given in (None, options()):
        model = make()
        if given:
            tensorbow.keras.replicate(model, given)
        model.compile(scaled(), LOSS)
        history = model.fit(*digits_of(digits, 640), batch_size=ROWS, epochs=3, verbose=0)
        assert history.history["loss"][-1] < history.history["loss"][0]


class Gan(keras.Model):
    """A model with two networks, two optimisers and a train_step of its own."""

    def __init__(self):
        super().__init__()
        self.generator = keras.Sequential([keras.Input((4,)), layers.Dense(64)])
        self.discriminator = keras.Sequential([keras.Input((64,)), layers.Dense(1)])
        self.seeds = keras.random.SeedGenerator(3)
        self.d_loss = keras.metrics.Mean(name="d_loss")
        self.g_loss = keras.metrics.Mean(name="g_loss")

    def compile(self, d_optimizer, g_optimizer):
        super().compile(loss=None)
        self.d_optimizer, self.g_optimizer = d_optimizer, g_optimizer

    @property
    def metrics(self):
        return [self.d_loss, self.g_loss]

    def noise(self, images):
        return keras.random.normal([tf.shape(images)[0], 4], seed=self.seeds)

    def train_step(self, data):
        images = tf.reshape(data[0] if isinstance(data, tuple) else data, [-1, 64])
        rows = tf.shape(images)[0]
        cross_entropy = keras.losses.BinaryCrossentropy(from_logits=True)
        fake = self.generator(self.noise(images))
        both = tf.concat([images, fake], 0)
        labels = tf.concat([tf.ones([rows, 1]), tf.zeros([rows, 1])], 0)
        with tf.GradientTape() as tape:
            d_loss = cross_entropy(labels, self.discriminator(both))
        weights = self.discriminator.trainable_weights
        self.d_optimizer.apply_gradients(zip(tape.gradient(d_loss, weights), weights))
        with tf.GradientTape() as tape:
            fake = self.generator(self.noise(images))
            g_loss = cross_entropy(tf.ones([rows, 1]), self.discriminator(fake))
        weights = self.generator.trainable_weights
        self.g_optimizer.apply_gradients(zip(tape.gradient(g_loss, weights), weights))
        self.d_loss.update_state(d_loss)
        self.g_loss.update_state(g_loss)
        return {"d_loss": self.d_loss.result(), "g_loss": self.g_loss.result()}


def test_a_gan_with_a_train_step_of_its_own(digits):
    results = []
    for given in OPTIONS.values():
        keras.utils.set_random_seed(11)
        model = Gan()
        if given is not None:
            tensorbow.keras.replicate(model, given)
        model.compile(keras.optimizers.Adam(0.01), keras.optimizers.SGD(0.1))
        history = model.fit(digits[0][: 8 * ROWS], batch_size=ROWS, epochs=2, verbose=0)
        optimisers = [*model.d_optimizer.variables, *model.g_optimizer.variables]
        results.append((history.history, [v.numpy() for v in [*model.variables, *optimisers]]))
    assert results[0][0] == results[1][0]
    for a, b in zip(results[0][1], results[1][1]):
        np.testing.assert_array_equal(a, b)
    for variable in model.trainable_variables:
        assert not np.array_equal(*(learner_value(model, variable, j) for j in range(2)))
    assert results[2][0].keys() == results[0][0].keys()


class Reconstructing(keras.Model):
    """An autoencoder: its train_step ignores the labels."""

    def __init__(self):
        super().__init__()
        self.body = keras.Sequential([layers.Flatten(), layers.Dense(8, "relu"), layers.Dense(64)])

    def call(self, images):
        return self.body(images)

    def train_step(self, data):
        images, _ = data
        with tf.GradientTape() as tape:
            wanted = tf.reshape(images, [tf.shape(images)[0], 64])
            error = tf.reduce_mean(tf.square(self(images, training=True) - wanted))
        gradients = tape.gradient(error, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return {"error": error}


def test_a_train_step_that_leaves_labels_aside(digits):
    _, _, two = compare(Reconstructing, digits_of(digits))
    assert session_of(two).num_learners == 2


def test_a_train_step_that_returns_other_than_scalars(digits):
    class Odd(keras.Sequential):
        def train_step(self, data):
            logs = super().train_step(data)
            return {"z": 3.0, **logs, "a": tf.shape(data[0])[0]}

    model = tensorbow.keras.replicate(
        Odd([keras.Input((8, 8, 1)), layers.Flatten(), layers.Dense(10)]), options()
    )
    model.compile("sgd", LOSS)
    logs = model.train_on_batch(*digits_of(digits, 24), return_dict=True)
    assert list(logs) == ["a", "loss", "z"]  # as stock Keras returns them
    assert logs["z"] == 3.0 and logs["a"] == 24  # of all rows, too


def stock_equals(make, data, match, **compiled):
    """Checks for one warning, and for stock Keras's results."""
    models, histories = [], []
    for given in (None, options()):
        keras.utils.set_random_seed(11)
        model = make()
        if given is None:
            model.compile("adam", LOSS, **compiled)
            histories.append(model.fit(*data, verbose=0, epochs=2).history)
        else:
            with pytest.warns(tensorbow.TensorBowWarning, match=match) as said:
                tensorbow.keras.replicate(model, given)
                model.compile("adam", LOSS, **compiled)
                histories.append(model.fit(*data, verbose=0, epochs=2).history)
                model.compile("adam", LOSS, **compiled)
            assert sum(issubclass(w.category, tensorbow.TensorBowWarning) for w in said) == 1
        models.append(model)
    assert histories[0] == histories[1]
    assert session_of(models[1]) is None


def test_run_eagerly_trains_as_stock_keras_after_a_warning(digits):
    stock_equals(dense, digits_of(digits), "run_eagerly=True", run_eagerly=True)


def test_a_fixed_number_of_rows_trains_as_stock_keras_after_a_warning(digits):
    def make():
        inputs = keras.Input(batch_shape=(ROWS, 8, 8))
        return keras.Model(inputs, layers.Dense(10)(layers.GRU(4, stateful=True)(inputs)))

    x, y = digits_of(digits)
    data = tf.data.Dataset.from_tensor_slices((x[..., 0], y)).batch(ROWS, drop_remainder=True)
    stock_equals(make, (data,), "fixed number of rows")


def test_sparse_batches_train_as_stock_keras_after_a_warning(digits):
    x, y = digits_of(digits)
    sparse = tf.sparse.from_dense(x.reshape(len(x), -1))

    def make():
        return keras.Sequential([keras.Input((64,), sparse=True), layers.Dense(10)])

    data = tf.data.Dataset.from_tensor_slices((sparse, y)).batch(ROWS)
    stock_equals(make, (data,), "SparseTensorSpec")


def test_lookup_tables_in_the_model_train_as_stock_keras_after_a_warning(digits):
    words = np.array(["a", "b", "c", "d"] * ROWS)[:, None]

    def make():
        lookup = layers.StringLookup(vocabulary=["a", "b", "c", "d"], output_mode="one_hot")
        inputs = keras.Input((1,), dtype="string")
        return keras.Model(inputs, layers.Dense(10)(lookup(inputs)))

    stock_equals(make, (tf.constant(words), digits[1][: 4 * ROWS]), "lookup table")


def test_what_stock_keras_cannot_trace_raises_what_stock_keras_raises(digits):
    class Python(keras.Sequential):
        def train_step(self, data):
            float(tf.reduce_mean(data[0]))  # needs a value during tracing
            return super().train_step(data)

    raised = []
    for given in (None, options()):
        model = Python([layers.Flatten(), layers.Dense(10)])
        if given is not None:
            tensorbow.keras.replicate(model, given)
        model.compile("sgd", LOSS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tensorbow.TensorBowWarning)
            with pytest.raises(Exception) as error:
                model.fit(*digits_of(digits), verbose=0)
        raised.append(type(error.value))
    assert raised[0] is raised[1]
