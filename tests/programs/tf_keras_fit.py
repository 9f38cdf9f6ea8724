"""Keras 2 (tf_keras) in graph mode: set_session, fit with validation data, evaluate, predict."""

import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality

tf1 = tf.compat.v1

PACKAGES = ("tf_keras",)
QUALITY = Quality("test accuracy", higher_is_better=True, tolerance=0.02)


def train(sessions, seed, directory):
    # This is tf.compat.v1.keras if TF_USE_LEGACY_KERAS=1.
    from tf_keras.api._v1 import keras

    (x_train, y_train), (x_test, y_test) = _data.digits()
    keras.backend.set_session(sessions.Session())
    model = keras.Sequential(
        [
            keras.layers.Dense(48, activation="relu", input_shape=(64,)),
            keras.layers.BatchNormalization(momentum=0.9),
            keras.layers.Dropout(0.1),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    optimizer = keras.optimizers.Adam(5e-3)
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    history = model.fit(
        *(x_train, y_train), batch_size=50, epochs=6, verbose=0, validation_data=(x_test, y_test)
    ).history
    loss, accuracy = model.evaluate(x_test, y_test, verbose=0)
    predicted = model.predict(x_test[:20])
    keras.backend.get_session().close()
    keras.backend.set_session(None)
    numbers = {"loss": loss, "predicted": predicted, **history}
    return Outcome(accuracy, numbers)
