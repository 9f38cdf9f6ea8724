"""The `tensorbow` command: train a classifier, find the best number of learners, try several
hosts or predict them, or say what is installed."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import math
import os
import pathlib
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from tensorbow import _report, launch, model_names, plan

DEFAULTS = {"batch_size": 16, "epochs": 12}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tensorbow", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    train = commands.add_parser("train", help="train a classifier on several learners")
    train.set_defaults(parser=train)  # which refuses wrong arguments
    train.add_argument(
        "--model",
        choices=[*model_names.MODELS, "xml"],
        default="lenet",
        help="xml: sparse rows with several of many labels each",
    )
    train.add_argument(
        "--frontend",
        choices=["session", "keras"],
        default="session",
        help="train with session.run, or with keras.Model.fit after tensorbow.keras.replicate",
    )
    train.add_argument(
        "--data",
        type=pathlib.Path,
        help="images: an .npz file in MNIST's layout, or a folder with one subfolder for each "
        "class; for models of text, a text file; synthetic:224x224x3:1000 makes rows up; default "
        "MNIST from Keras, else scikit-learn's digits; with --model xml a file in the LIBSVM "
        "format, compressed or not",
    )
    train.add_argument("--test", type=pathlib.Path, help="with --model xml: the test set, likewise")
    train.add_argument("--learners", type=int, help="learners; default one per core")
    train.add_argument(
        "--batch-size",
        type=int,
        help="rows of one learner's batch; with --frontend keras, rows of a step of fit(); "
        "default 16, with --model xml 64",
    )
    train.add_argument("--epochs", type=int, help="default 12, with --model xml 10")
    train.add_argument(
        "--optimiser",
        choices=["sgd", "momentum", "adam"],
        help="default momentum; with --model xml, lstm and transformer adam",
    )
    train.add_argument(
        "--learning-rate",
        type=float,
        help="default 0.02; with --model vgg16 0.005, lstm 0.003, transformer and xml 0.002",
    )
    train.add_argument(
        "--dropout",
        type=float,
        help="with --model xml: fraction of hidden units left out; default 0.3",
    )
    train.add_argument(
        "--synchroniser",
        choices=["auto", "sma", "ssgd", "easgd", "adaptive"],
        default="auto",
        help="how learners are kept together; adaptive: for learners of different speed",
    )
    train.add_argument(
        "--drop-at",
        type=int,
        nargs="*",
        default=[],
        metavar="EPOCH",
        help="epochs (from 1) before which the learning rate is divided by 10",
    )
    train.add_argument(
        "--target", type=float, help="test accuracy to reach, with --model xml precision@1; 0 to 1"
    )
    train.add_argument("--compare", choices=["stock"], help="train with stock TensorFlow, too")
    train.add_argument("--seed", type=int, default=1)
    train.add_argument(
        "--plot", type=pathlib.Path, help="save accuracy and throughput over time as a picture"
    )
    train.add_argument("--json", type=pathlib.Path, help="save all numbers")
    train.add_argument("--save", type=pathlib.Path, help="save the central model as a checkpoint")

    _add_tune(commands)
    launch.add_parser(commands)
    plan.add_parser(commands)
    doctor = commands.add_parser(
        "doctor", help="print versions, devices and whether everything loads"
    )
    doctor.set_defaults(parser=doctor)
    return parser


def _add_tune(commands: Any) -> None:
    tune = commands.add_parser("tune", help="how fast a program trains with which learners")
    tune.set_defaults(parser=tune)
    what = tune.add_mutually_exclusive_group(required=True)
    what.add_argument("script", nargs="?", type=pathlib.Path, help="a program that trains")
    what.add_argument("--model", choices=sorted(model_names.MODELS), help="a model of ours instead")
    tune.add_argument(
        "arguments", nargs=argparse.REMAINDER, help="of the script: all that follows it"
    )
    tune.add_argument(
        "--batch-size", type=int, default=32, help="with --model: rows of a run, of all learners"
    )
    tune.add_argument("--seconds", type=float, default=120, help="at most so long")
    tune.add_argument("--plot", type=pathlib.Path, help="save the throughputs as a picture")


def _check(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """Refuses, before anything is loaded or trained, what could not work later."""
    for name in ("learners", "batch_size", "epochs", "learning_rate"):
        value = getattr(arguments, name)
        if value is not None and not 0 < value < math.inf:
            parser.error(f"--{name.replace('_', '-')} must be greater than 0, got {value}")
    if arguments.target is not None and not 0 <= arguments.target <= 1:
        parser.error(f"--target must be an accuracy from 0 to 1, got {arguments.target:g}")
    if arguments.dropout is not None and not 0 <= arguments.dropout < 1:
        parser.error(f"--dropout must be at least 0 and less than 1, got {arguments.dropout:g}")
    is_xml = arguments.model == "xml"
    for name in ("test", "dropout"):
        if getattr(arguments, name) is not None and not is_xml:
            parser.error(f"--{name} is for --model xml, got --model {arguments.model}")
    if is_xml and (arguments.data is None or arguments.test is None):
        parser.error("--model xml needs --data FILE and --test FILE, both in the LIBSVM format")
    if arguments.frontend == "keras" and (is_xml or arguments.synchroniser == "adaptive"):
        what = "--model xml" if is_xml else "--synchroniser adaptive"
        parser.error(f"{what} is for sessions; leave out --frontend keras")
    if arguments.seed < 0:
        parser.error(f"--seed must be at least 0, got {arguments.seed}")
    for name in ("plot", "json", "save"):
        path = getattr(arguments, name)
        if path is not None and not path.resolve().parent.is_dir():
            parser.error(f"--{name} {path}: there is no directory {path.resolve().parent}")


def _rate(arguments: argparse.Namespace, epoch: int) -> float:
    """The learning rate of an epoch, counted from 0."""
    return float(arguments.learning_rate * 0.1 ** sum(epoch + 1 >= d for d in arguments.drop_at))


def _with_keras(arguments: argparse.Namespace, data: Any, options: Any, target: float) -> list[Any]:
    """The results of `--frontend keras`."""
    import keras

    import tensorbow.keras
    from tensorbow.keras import networks, training

    optimisers: dict[str, Callable[[], Any]] = {
        "sgd": lambda: keras.optimizers.SGD(arguments.learning_rate),
        "momentum": lambda: keras.optimizers.SGD(arguments.learning_rate, momentum=0.9),
        "adam": lambda: keras.optimizers.Adam(arguments.learning_rate),
    }
    rows = arguments.batch_size
    contenders = [(f"TensorBow Keras, batch {rows}, {options.num_learners} learners", True)]
    if arguments.compare == "stock":
        contenders.insert(0, (f"stock Keras, batch {rows}", False))
    results = []
    for name, replicated in contenders:
        keras.utils.set_random_seed(arguments.seed)
        model = networks.build(arguments.model, data.shape, data.classes)
        if replicated:
            tensorbow.keras.replicate(model, options)
        rates = [_rate(arguments, epoch) for epoch in range(arguments.epochs)]
        optimiser = optimisers[arguments.optimiser]()
        results.append(training.train(name, model, optimiser, data, rows, rates, target))
    if arguments.save:
        path = arguments.save.with_suffix(".keras")
        model.save(path)
        print(f"saved the central model as {path}")
    return results


def _train(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    _check(parser, arguments)
    if arguments.plot:
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            parser.error("--plot needs matplotlib: pip install matplotlib")
    import tensorflow as tf

    import tensorbow

    if arguments.frontend == "session":
        tf.compat.v1.disable_eager_execution()
    try:
        data = _load(arguments)
    except (OSError, ValueError, ImportError, MemoryError) as error:
        parser.error(str(error))
    target = arguments.target
    try:
        # With a seed the number of learners stays what it is.
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
        f"{arguments.learning_rate:g}, {arguments.batch_size} rows a batch, "
        f"{options.num_learners} learners; target accuracy {target:g}",
        flush=True,
    )
    train = _with_keras if arguments.frontend == "keras" else _with_sessions
    return _report.report(arguments, data.name, train(arguments, data, options, target))


def _load(arguments: argparse.Namespace) -> Any:
    """The data; puts what the model is trained with by default where nothing is said."""
    from tensorbow import datasets, extreme

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
    import tensorbow

    if arguments.synchroniser == "adaptive":
        # A merge in the middle of an epoch and one at its end, at least: then momentum, which
        # looks back over whole mega-batches, is none.
        mega_batch = min(100 * arguments.batch_size, -(-data.num_rows // 2))
        return tensorbow.AdaptiveSGD(
            b_max=arguments.batch_size, mega_batch=mega_batch, momentum=0.0
        )
    choices = {"auto": "auto", "sma": "SMA", "ssgd": "SSGD", "easgd": "EASGD"}
    name = choices[arguments.synchroniser]
    return name if name == "auto" else getattr(tensorbow, name)()


def _with_sessions(
    arguments: argparse.Namespace, data: Any, options: Any, target: float
) -> list[Any]:
    """How training went in a stock session, if it is compared with, and on learners."""
    import numpy as np
    import tensorflow as tf

    import tensorbow
    from tensorbow import extreme, models, training

    tf1 = tf.compat.v1
    rate: Any = None

    def optimiser() -> Any:
        nonlocal rate
        rate = tf1.placeholder_with_default(np.float32(arguments.learning_rate), [], name="rate")
        if arguments.optimiser == "momentum":
            return tf1.train.MomentumOptimizer(rate, 0.9)
        if arguments.optimiser == "adam":
            return tf1.train.AdamOptimizer(rate)
        return tf1.train.GradientDescentOptimizer(rate)

    train: Callable[..., Any] = training.train
    program: Any
    if arguments.model == "xml":
        program = extreme.build(data.features, data.labels, optimiser, arguments.seed)
        train = functools.partial(extreme.train, dropout=arguments.dropout)
        options = dataclasses.replace(options, shard=[program.x, program.y])
    else:
        program = models.build(
            arguments.model, data.shape, data.classes, optimiser, seed=arguments.seed
        )

    def feeds_of_epoch(epoch: int) -> dict[Any, Any]:
        return {rate: np.float32(_rate(arguments, epoch))}

    def contend(name: str, make: Callable[[], Any], rows: int, then: Callable[[Any], None]) -> Any:
        bar = _report.Bar(name, arguments.epochs)
        with make() as session:
            bar.session = session
            try:
                progress = train(
                    name,
                    session,
                    program,
                    data,
                    rows,
                    arguments.epochs,
                    target,
                    arguments.seed,
                    feeds_of_epoch,
                    bar,
                )
            except KeyboardInterrupt:
                bar.interrupted()
                raise
            then(session)
        bar.close()
        return progress

    def save(session: Any) -> None:
        if arguments.save:
            with program.graph.as_default():
                path = tf1.train.Saver().save(session, str(arguments.save))
            print(f"saved the central model as {path}")

    results = []
    if arguments.compare == "stock":
        results.append(
            contend(
                f"stock TensorFlow, batch {arguments.batch_size}",
                lambda: tf1.Session(graph=program.graph),
                arguments.batch_size,
                lambda session: None,
            )
        )
    learners = options.num_learners
    rows = learners * arguments.batch_size
    if isinstance(options.synchroniser, tensorbow.AdaptiveSGD):
        rows = options.synchroniser.mega_batch or rows
    results.append(
        contend(
            f"TensorBow, {learners} learners x batch {arguments.batch_size}",
            lambda: tensorbow.TensorBowSession(graph=program.graph, options=options),
            rows,
            save,
        )
    )
    return results


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit status."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    arguments = _parser().parse_args(argv)
    try:
        return _command(arguments.parser, arguments)
    except KeyboardInterrupt:
        print("tensorbow: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT


def _command(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    if arguments.command == "doctor":
        from tensorbow import doctor

        return doctor.run()
    if arguments.command == "tune":
        from tensorbow import tune

        return tune.run(parser, arguments)
    if arguments.command == "launch":
        return launch.run(parser, arguments)
    if arguments.command == "plan":
        return plan.run(parser, arguments)
    return _train(parser, arguments)


if __name__ == "__main__":
    sys.exit(main())
