"""Flags of `tensorbow train`, and their checks. No TensorFlow."""

from __future__ import annotations

import argparse
import pathlib
from typing import Any

from tensorbow.cli import model_names, outputs
from tensorbow.cli.arguments import check_positive

MAX_LEARNERS = 1024
SYNTHETIC = "synthetic:"


def add_parser(commands: Any) -> None:
    """Adds the command and its arguments."""
    train = commands.add_parser("train", help="train a classifier on several learners")
    train.set_defaults(parser=train)  # the parser that reports wrong arguments
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
        "MNIST if Keras has it in its cache, else digits made of scikit-learn's; with --model xml "
        "a file in the LIBSVM format, compressed or not",
    )
    train.add_argument("--test", type=pathlib.Path, help="with --model xml: the test set, likewise")
    train.add_argument("--learners", type=int, help="learners; default one per core")
    train.add_argument(
        "--batch-size",
        type=int,
        help="rows of a step, of all learners together; default 32, with --model xml 128",
    )
    train.add_argument(
        "--epochs",
        type=int,
        help="default 12, with --model xml 10; with --compare as many as it takes until each side "
        "has trained for 10 seconds, at least 3",
    )
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
    train.add_argument(
        "--compare",
        choices=["stock"],
        help="train with stock TensorFlow, too (--frontend keras: stock Keras), in turns",
    )
    train.add_argument("--seed", type=int, default=1)
    train.add_argument(
        "--plot", type=pathlib.Path, help="save accuracy and throughput over time as a picture"
    )
    train.add_argument("--json", type=pathlib.Path, help="save all numbers")
    train.add_argument("--save", type=pathlib.Path, help="save the central model as a checkpoint")


def check(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """Refuses arguments that could not work later, before anything is loaded or trained."""
    check_positive(parser, arguments, "learners", "batch_size", "epochs", "learning_rate")
    if arguments.learners is not None and arguments.learners > MAX_LEARNERS:
        parser.error(f"--learners must be from 1 to {MAX_LEARNERS}, got {arguments.learners}")
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
    for name in ("data", "test"):
        path = getattr(arguments, name)
        if path is not None and not str(path).startswith(SYNTHETIC) and not path.exists():
            parser.error(f"--{name} {path}: there is no such file or directory")
    outputs.check(parser, arguments, "plot", "json", "save")
