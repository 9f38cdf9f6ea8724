"""`tensorbow doctor`: what is installed, and whether it works."""

from __future__ import annotations

import os
import pathlib
import platform


def run() -> int:
    """Prints what is installed; 0 if everything works."""
    print(f"python       {platform.python_version()} on {platform.platform(terse=True)}")
    try:
        import tensorflow as tf

        print(f"tensorflow   {tf.__version__} ({pathlib.Path(tf.__file__).parent})")
        from tensorbow import _loader

        native = _loader.load()
    except ImportError as error:
        print(f"FAILED       {error}")
        return 1
    import keras
    import numpy as np

    import tensorbow

    print(f"keras        {keras.__version__}")
    print(f"numpy        {np.__version__}")
    print(f"tensorbow    {tensorbow.__version__} ({pathlib.Path(tensorbow.__file__).parent})")
    print(f"  built for  TensorFlow {native.tensorflow_version}, compiler {native.compiler}")
    print(f"cores        {len(os.sched_getaffinity(0))} for this process")
    gpus = tf.config.list_physical_devices("GPU")
    used = native.num_accelerators()
    print(f"gpus         {len(gpus)}, of which learners use {used}")
    library = _loader.load_gpu_library(pathlib.Path(tensorbow.__file__).parent)
    print(f"gpu library  {library}")

    tf1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default():
        w = tf1.get_variable("w", initializer=np.float32(0))
        x = tf1.placeholder(tf.float32, [None])
        train = tf1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean((w - x) ** 2))
        init = tf1.global_variables_initializer()
    options = tensorbow.Options(learners_per_device=2)
    with tensorbow.TensorBowSession(graph=graph, options=options) as session:
        for device in session.list_devices():
            print(f"device       {device.name}")
        session.run(init)
        for _ in range(200):
            session.run(train, {x: [1, 1, 3, 3]})
        value = float(session.run(w))
    works = abs(value - 2) < 1e-3
    print(
        f"training     {'works' if works else 'FAILED'}: two learners found {value:.4f} (wanted 2)"
    )
    return 0 if works else 1
