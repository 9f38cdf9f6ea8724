"""The `tensorbow` command: train a classifier, find the best number of learners, try several
hosts or predict them, or say what is installed."""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from tensorbow import launch, plan

SECONDS_BETWEEN_METRICS = 0.5  # on the progress bar
DEFAULT_TARGETS = {"logistic": 0.9, "lenet": 0.98, "resnet20": 0.6, "resnet32": 0.6}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tensorbow", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    train = commands.add_parser("train", help="train a classifier on several learners")
    train.add_argument(
        "--model", choices=["logistic", "lenet", "resnet20", "resnet32"], default="lenet"
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
        help="an .npz file in MNIST's layout; else MNIST from Keras, else scikit-learn's digits",
    )
    train.add_argument("--learners", type=int, help="learners; default one per core")
    train.add_argument(
        "--batch-size",
        type=int,
        default=16,
        help="rows of one learner's batch; with --frontend keras, rows of a step of fit()",
    )
    train.add_argument("--epochs", type=int, default=12)
    train.add_argument("--optimiser", choices=["sgd", "momentum", "adam"], default="momentum")
    train.add_argument("--learning-rate", type=float, default=0.02)
    train.add_argument(
        "--drop-at",
        type=int,
        nargs="*",
        default=[],
        metavar="EPOCH",
        help="epochs (from 1) before which the learning rate is divided by 10",
    )
    train.add_argument("--target", type=float, help="test accuracy to reach, 0 to 1")
    train.add_argument("--compare", choices=["stock"], help="train with stock TensorFlow, too")
    train.add_argument("--seed", type=int, default=1)
    train.add_argument(
        "--plot", type=pathlib.Path, help="save test accuracy over time as a picture"
    )
    train.add_argument("--json", type=pathlib.Path, help="save all numbers")
    train.add_argument("--save", type=pathlib.Path, help="save the central model as a checkpoint")

    _add_tune(commands)
    launch.add_parser(commands)
    plan.add_parser(commands)
    commands.add_parser("doctor", help="print versions, devices and whether everything loads")
    return parser


def _add_tune(commands: Any) -> None:
    tune = commands.add_parser("tune", help="how fast a program trains with which learners")
    what = tune.add_mutually_exclusive_group(required=True)
    what.add_argument("script", nargs="?", type=pathlib.Path, help="a program that trains")
    what.add_argument("--model", choices=sorted(DEFAULT_TARGETS), help="a model of ours instead")
    tune.add_argument("arguments", nargs=argparse.REMAINDER, help="of the script")
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
    if arguments.seed < 0:
        parser.error(f"--seed must be at least 0, got {arguments.seed}")
    for name in ("plot", "json", "save"):
        path = getattr(arguments, name)
        if path is not None and not path.resolve().parent.is_dir():
            parser.error(f"--{name} {path}: there is no directory {path.resolve().parent}")


class _Bar:
    """A progress bar on a terminal, silence elsewhere and without tqdm."""

    def __init__(self, name: str, epochs: int) -> None:
        self._name = name
        self._epochs = epochs
        self._bar: Any = None
        self._next_metrics = 0.0  # time.monotonic()
        self.session: Any = None  # its metrics are shown, if it has any

    def __call__(self, progress: Any, runs_done: int, runs: int) -> None:
        try:
            from tqdm import tqdm
        except ImportError:
            return
        if self._bar is None:
            self._bar = tqdm(
                total=self._epochs * runs,
                desc=self._name,
                unit="run",
                disable=None if not os.environ.get("TENSORBOW_PROGRESS") else False,
                leave=False,
            )
        self._bar.update(1)
        if self._bar.disable or time.monotonic() < self._next_metrics:
            return
        self._next_metrics = time.monotonic() + SECONDS_BETWEEN_METRICS
        shown = {"epoch": str(len(progress.accuracy) + 1)}
        if progress.accuracy:
            shown["accuracy"] = f"{progress.accuracy[-1]:.4f}"
        if hasattr(self.session, "metrics"):
            metrics = self.session.metrics()
            shown["learners"] = str(len(metrics.learners))
            shown["samples/s"] = f"{metrics.samples_per_second:,.0f}"
        self._bar.set_postfix(shown)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def _table(rows: Sequence[Any]) -> str:
    """The contenders' results as aligned text."""
    cells = [
        ["", "samples/s", "epochs to target", "seconds to target", "final test accuracy"],
        *(
            [
                p.name,
                f"{p.samples_per_second:,.0f}",
                str(p.epochs_to_target or "not reached"),
                "not reached" if p.seconds_to_target is None else f"{p.seconds_to_target:.2f}",
                f"{p.accuracy[-1]:.4f}",
            ]
            for p in rows
        ),
    ]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = [
        "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths)))
        for row in cells
    ]
    lines.insert(1, "-" * len(lines[0]))
    return "\n".join(lines)


def _plot(rows: Sequence[Any], title: str, path: pathlib.Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (over_time, over_samples) = plt.subplots(1, 2, figsize=(11, 4.2), sharey=True)
    for p in rows:
        over_time.plot(p.seconds, p.accuracy, marker="o", label=p.name)
        over_samples.plot([s / 1000 for s in p.samples], p.accuracy, marker="o", label=p.name)
    for axes in (over_time, over_samples):
        axes.axhline(rows[0].target, color="grey", linestyle=":", label="target")
        axes.grid(alpha=0.3)
    over_time.set_xlabel("training time [s]")
    over_samples.set_xlabel("training samples [thousands]")
    over_time.set_ylabel("test accuracy")
    over_time.legend(loc="lower right")
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


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
        model = networks.build(arguments.model, data.image_shape, data.classes)
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
    from tensorbow import datasets

    if arguments.frontend == "session":
        tf.compat.v1.disable_eager_execution()
    try:
        data = datasets.load(arguments.data)
    except (OSError, ValueError, ImportError) as error:
        parser.error(str(error))
    target = arguments.target
    if target is None:
        target = DEFAULT_TARGETS[arguments.model]
    try:
        # With a seed the number of learners stays what it is.
        options = tensorbow.Options(learners_per_device=arguments.learners, seed=arguments.seed)
    except ValueError as error:
        parser.error(f"--learners: {error}")

    print(
        f"{arguments.model} on {data.name}: {len(data.x_train)} training and "
        f"{len(data.x_test)} test images of {'x'.join(map(str, data.image_shape))}; "
        f"{arguments.optimiser}, learning rate "
        f"{arguments.learning_rate:g}, {arguments.batch_size} rows a batch, "
        f"{options.num_learners} learners; target accuracy {target:g}",
        flush=True,
    )
    train = _with_keras if arguments.frontend == "keras" else _with_sessions
    return _report(arguments, data.name, train(arguments, data, options, target))


def _with_sessions(
    arguments: argparse.Namespace, data: Any, options: Any, target: float
) -> list[Any]:
    """How training went in a stock session, if it is compared with, and on learners."""
    import numpy as np
    import tensorflow as tf

    import tensorbow
    from tensorbow import models, training

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

    program = models.build(
        arguments.model, data.image_shape, data.classes, optimiser, seed=arguments.seed
    )

    def feeds_of_epoch(epoch: int) -> dict[Any, Any]:
        return {rate: np.float32(_rate(arguments, epoch))}

    def contend(name: str, make: Callable[[], Any], rows: int, then: Callable[[Any], None]) -> Any:
        bar = _Bar(name, arguments.epochs)
        with make() as session:
            bar.session = session
            progress = training.train(
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
    results.append(
        contend(
            f"TensorBow, {learners} learners x batch {arguments.batch_size}",
            lambda: tensorbow.TensorBowSession(graph=program.graph, options=options),
            learners * arguments.batch_size,
            save,
        )
    )
    return results


def _report(arguments: argparse.Namespace, data: str, results: list[Any]) -> int:
    """Prints and saves what was found; the exit status."""
    print(_table(results))
    if len(results) == 2:
        ratio = results[1].samples_per_second / results[0].samples_per_second
        print(f"throughput: {ratio:.2f} times stock TensorFlow's")
    if arguments.plot:
        _plot(results, f"{arguments.model} on {data}", arguments.plot)
        print(f"plot saved as {arguments.plot}")
    if arguments.json:
        numbers = [
            {
                "name": p.name,
                "target": p.target,
                "samples": p.samples,
                "seconds": p.seconds,
                "accuracy": p.accuracy,
            }
            for p in results
        ]
        arguments.json.write_text(json.dumps(numbers, indent=1) + "\n")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit status."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    parser = _parser()
    arguments = parser.parse_args(argv)
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
