"""`tensorbow train`: trains a classifier, beside stock TensorFlow if that is wanted."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import os
import pathlib
import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

import tensorbow
from tensorbow import datasets, models, training
from tensorbow._runtime.messages import count
from tensorbow.cli import model_names, outputs
from tensorbow.cli.machine import Load
from tensorbow.cli.train import extreme, report
from tensorbow.cli.train.turns import LEAST_EPOCHS, Contender, Progress, doubts, take_turns

tf1 = tf.compat.v1

DEFAULTS = {"batch_size": 32, "epochs": 12}


class _Race(contextlib.ExitStack):
    """The contenders of a command; their sessions are open until it is left.

    Attributes:
      contenders: stock TensorFlow first, if it takes part.
      sessions: of each, for its metrics; None if there are none.
      save: saves TensorBow's model.
    """

    def __init__(self) -> None:
        super().__init__()
        self.contenders: list[Contender] = []
        self.sessions: dict[str, Callable[[], Any]] = {}
        self.save: Callable[[pathlib.Path], None] = lambda path: None

    def add(
        self,
        progress: Progress,
        runs: Iterator[tuple[int, float]],
        session: Callable[[], Any] = lambda: None,
    ) -> None:
        """Adds a contender; see `Contender`."""
        self.contenders.append(Contender(progress, runs))
        self.sessions[progress.name] = session

    def run(self, rows: int, epochs: int | None) -> None:
        """Trains all of them; `rows` are those of an epoch."""
        bar = report.Bar(rows, epochs or LEAST_EPOCHS, len(self.contenders))
        try:
            take_turns(
                self.contenders,
                epochs,
                lambda progress, more: bar(progress, more, self.sessions[progress.name]()),
            )
        finally:
            bar.close()


def run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Executes the command; returns the exit status."""
    if arguments.frontend == "session":
        tf1.disable_eager_execution()
    asked = arguments.epochs
    try:
        data = _load(arguments)
    except (OSError, ValueError, ImportError, MemoryError) as error:
        parser.error(str(error))
    try:
        # A seed keeps the number of learners.
        options = tensorbow.Options(
            learners_per_device=arguments.learners,
            seed=arguments.seed,
            synchroniser=_synchroniser(arguments, data),
        )
    except ValueError as error:
        parser.error(f"--learners: {error}")
    print(
        f"{arguments.model} on {data.name}: {data.summary}; "
        f"{arguments.optimiser}, learning rate "
        f"{arguments.learning_rate:g}, {arguments.batch_size} rows a step, "
        f"{count(options.num_learners, 'learner')}; target accuracy {arguments.target:g}",
        flush=True,
    )
    status = 0
    with _Race() as race:
        load = Load()
        try:
            fill = _with_keras if arguments.frontend == "keras" else _with_sessions
            fill(race, parser, arguments, data, options)
            race.run(data.num_rows, asked if arguments.compare else arguments.epochs)
        except KeyboardInterrupt:
            status = 128 + signal.SIGINT
        found = [contender.progress for contender in race.contenders]
        doubted = doubts(found, load.others(), os.cpu_count() or 1) if status == 0 else []
        if status:
            print("\n".join(["tensorbow: interrupted", *report.interrupted(found)]), flush=True)
        title = f"{arguments.model} on {data.name}"
        fine = report.report(arguments, title, found, doubted, race.save)
    return status or int(not fine)


def _rate(arguments: argparse.Namespace, epoch: int) -> float:
    """Returns the learning rate of an epoch, counted from 0."""
    return float(arguments.learning_rate * 0.1 ** sum(epoch + 1 >= d for d in arguments.drop_at))


def _load(arguments: argparse.Namespace) -> Any:
    """Returns the data; fills in the model's defaults for arguments that are not given."""
    is_xml = arguments.model == "xml"
    defaults: dict[str, Any] = extreme.DEFAULTS
    if not is_xml:
        model = model_names.MODELS[arguments.model]
        of_model = ("optimiser", "learning_rate", "target")
        defaults = DEFAULTS | {name: getattr(model, name) for name in of_model}
    for name, value in defaults.items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)
    if is_xml:
        return extreme.load(arguments.data, arguments.test)
    return datasets.load(arguments.data, arguments.model)


def _synchroniser(arguments: argparse.Namespace, data: Any) -> Any:
    if arguments.synchroniser == "adaptive":
        learners = tensorbow.Options(learners_per_device=arguments.learners, seed=0).num_learners
        b_max = max(1, arguments.batch_size // learners)
        # At least one merge inside an epoch and one at its end: momentum, which looks back over
        # whole mega-batches, would do harm.
        mega_batch = min(100 * b_max, -(-data.num_rows // 2))
        return tensorbow.AdaptiveSGD(b_max=b_max, mega_batch=mega_batch, momentum=0.0)
    choices = {"auto": "auto", "sma": "SMA", "ssgd": "SSGD", "easgd": "EASGD"}
    name = choices[arguments.synchroniser]
    return name if name == "auto" else getattr(tensorbow, name)()


def _with_keras(
    race: _Race,
    parser: argparse.ArgumentParser,
    arguments: argparse.Namespace,
    data: Any,
    options: Any,
) -> None:
    """Adds the contenders of `--frontend keras`."""
    import keras

    import tensorbow.keras
    from tensorbow.cli.train import keras_networks
    from tensorbow.cli.train import keras_training as keras_training

    optimisers: dict[str, Callable[[], Any]] = {
        "sgd": lambda: keras.optimizers.SGD(arguments.learning_rate),
        "momentum": lambda: keras.optimizers.SGD(arguments.learning_rate, momentum=0.9),
        "adam": lambda: keras.optimizers.Adam(arguments.learning_rate),
    }
    rate = functools.partial(_rate, arguments)
    for replicated in (False, True) if arguments.compare == "stock" else (True,):
        keras.utils.set_random_seed(arguments.seed)
        model = keras_networks.build(arguments.model, data.shape, data.classes)
        name = "stock Keras"
        if replicated:
            tensorbow.keras.replicate(model, options)
            name = f"TensorBow Keras, {count(options.num_learners, 'learner')}"
            if arguments.save is not None and arguments.save.suffix != ".keras":
                arguments.save = arguments.save.with_name(arguments.save.name + ".keras")
            weights = sum(weight.numpy().nbytes for weight in model.weights)
            outputs.check(parser, arguments, "save", wanted_bytes=4 * weights)
            race.save = model.save
        progress = Progress(name, arguments.target)
        runs = keras_training.train(
            progress,
            model,
            optimisers[arguments.optimiser](),
            data,
            arguments.batch_size,
            rate,
            arguments.seed,
        )

        def session(model: Any = model, replicated: bool = replicated) -> Any:
            return tensorbow.keras.session_of(model) if replicated else None

        race.add(progress, runs, session)


def _with_sessions(
    race: _Race,
    parser: argparse.ArgumentParser,
    arguments: argparse.Namespace,
    data: Any,
    options: Any,
) -> None:
    """Adds a stock session, if it is compared with, and one with learners."""
    rate: Any = None

    def optimiser() -> Any:
        nonlocal rate
        rate = tf1.placeholder_with_default(np.float32(arguments.learning_rate), [], name="rate")
        if arguments.optimiser == "momentum":
            return tf1.train.MomentumOptimizer(rate, 0.9)
        if arguments.optimiser == "adam":
            return tf1.train.AdamOptimizer(rate)
        return tf1.train.GradientDescentOptimizer(rate)

    train: Callable[..., Iterator[tuple[int, float]]] = training.train
    program: Any
    if arguments.model == "xml":
        program = extreme.build(data.features, data.labels, optimiser, arguments.seed)
        train = functools.partial(extreme.train, dropout=arguments.dropout)
        options = dataclasses.replace(options, shard=[program.x, program.y])
    else:
        program = models.build(
            arguments.model, data.shape, data.classes, optimiser, seed=arguments.seed
        )
    variables = program.graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES)
    size = sum(v.shape.num_elements() * v.dtype.base_dtype.size for v in variables)
    outputs.check(parser, arguments, "save", wanted_bytes=2 * size)

    def feeds_of_epoch(epoch: int) -> dict[Any, Any]:
        return {rate: np.float32(_rate(arguments, epoch))}

    def add(name: str, session: Any, rows: int) -> None:
        progress = Progress(name, arguments.target)
        seed = arguments.seed
        runs = train(progress, session, program, data, rows, seed, feeds_of_epoch)
        race.add(progress, runs, lambda: session)

    rows = arguments.batch_size
    if arguments.compare == "stock":
        stock = race.enter_context(tf1.Session(graph=program.graph))
        add("stock TensorFlow", stock, rows)
    ours = race.enter_context(tensorbow.TensorBowSession(graph=program.graph, options=options))
    if isinstance(options.synchroniser, tensorbow.AdaptiveSGD):
        rows = options.synchroniser.mega_batch or rows
    add(f"TensorBow, {count(options.num_learners, 'learner')}", ours, rows)

    def save(path: pathlib.Path) -> None:
        with program.graph.as_default():
            tf1.train.Saver().save(ours, str(path))

    race.save = save
