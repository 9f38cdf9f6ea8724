"""Checks that TensorBow computes the same on a GPU as on the CPU.

    python benchmarks/gpu_checks.py [--only NAME] [--state DIR]

  same weights   GPU and CPU agree after 20 iterations under SMA: logistic regression, LeNet
                 and ResNet-32 on 1, 2 and 4 learners, without CUDA graphs and with them, as
                 well as stock TensorFlow's do
  as stock       one learner is no farther from stock TensorFlow on the same GPU than that
                 is from the CPU
  same bits      two runs on the GPU leave the same bits
  own handles    4 learners have a stream, cuDNN and cuBLAS handles and an allocator each
  memcheck       4 learners over 2000 iterations of a small model under compute-sanitizer

Every training is a process of its own. DIR keeps messages, and the checks that have passed, which
are not repeated. Exits with 1 if a check failed.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np
from interleave import environment

MODELS = ["logistic", "lenet", "resnet32"]
LEARNERS = [1, 2, 4]
ITERATIONS = 20
BATCH = 16
# The allowed difference as a share of the weights' movement: float32 sums in another order, not
# TF32.
TOLERANCE = 0.01
# The allowed difference of learners on GPU and CPU, as a multiple of stock TensorFlow's. Networks
# magnify differences of rounding, deep ones by orders of magnitude.
MAGNIFIED = 3
# The minimum of the allowed difference between one learner and stock on the same GPU.
TOLERANCE_STOCK = 1e-5
# Small steps magnify rounding less. On one CPU, ResNet-32 with and without oneDNN ends 0.17 of its
# movement apart, and 0.95 at a rate of 0.01.
LEARNING_RATE = 1e-3
SECONDS = 240
MEMCHECK_SECONDS = 500
MEMCHECK_ITERATIONS = 2000


def train(
    model: str, learners: int, iterations: int, batch: int, cuda_graphs: str
) -> dict[str, np.ndarray]:
    """Trains; returns the central model's weights before ("0 NAME") and after the iterations.

    Also returns "devices", the names of those that execute a learning run. `cuda_graphs` is that of
    `Options`, or "default" to leave it out. With 0 learners, stock TensorFlow trains as one learner
    does.
    """
    import tensorflow as tf
    from contenders import data, facts

    import tensorbow
    from tensorbow import models

    tf.compat.v1.disable_eager_execution()
    tf.config.experimental.enable_tensor_float_32_execution(False)
    tf.config.experimental.enable_op_determinism()
    tf.compat.v1.set_random_seed(1)
    tf1 = tf.compat.v1
    program = models.build(
        model,
        facts(model).shape,
        optimiser=lambda: tf1.train.GradientDescentOptimizer(LEARNING_RATE),
        seed=1,
    )
    with program.graph.as_default():
        weights = {v.name: v for v in tf.compat.v1.trainable_variables()}
    images, labels = data(model)
    rows = max(1, learners) * batch
    more: Any = {} if cuda_graphs == "default" else {"cuda_graphs": cuda_graphs}
    options = tensorbow.Options(
        learners_per_device=max(1, learners), synchroniser=tensorbow.SMA(), **more
    )
    if learners:
        session = tensorbow.TensorBowSession(graph=program.graph, options=options)
    else:
        session = tf1.Session(graph=program.graph)
    with warnings.catch_warnings(record=True) as caught, session:
        warnings.simplefilter("always")
        session.run(program.init)
        found = {f"0 {name}": value for name, value in session.run(weights).items()}
        for k in range(iterations):
            begin = k * rows % (len(images) - rows)
            fed = {
                program.images: images[begin : begin + rows],
                program.labels: labels[begin : begin + rows],
            }
            session.run(program.train_op, fed)
        found.update(session.run(weights))
        metadata = tf.compat.v1.RunMetadata()
        trace = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE)
        session.run(program.train_op, fed, options=trace, run_metadata=metadata)
        used = [stats.device for stats in metadata.step_stats.dev_stats if stats.node_stats]
        found["devices"] = np.array(used)
        reasons = [str(w.message) for w in caught if "cuda_graphs" in str(w.message)]
        found["op by op"] = np.array(" ".join(reasons))
        found["learner devices"] = np.array(session.learner_devices if learners else [""])
    return found


def apart(weights: dict[str, np.ndarray], reference: dict[str, np.ndarray]) -> float:
    """Returns the distance between weights, as a share of their movement."""
    names = [name for name in reference if not name.startswith("0 ")]
    moved = np.sqrt(sum(np.sum((reference[n] - reference[f"0 {n}"]) ** 2.0) for n in names))
    between = np.sqrt(sum(np.sum((weights[n] - reference[n]) ** 2.0) for n in names))
    return float(between / moved)


class NotCapturedError(RuntimeError):
    """A task that is to be a CUDA graph is executed op by op."""


class Checks:
    """The checks, and a record of those that have passed."""

    def __init__(self, state: pathlib.Path, device: str) -> None:
        self._state = state
        self._device = device
        self._log = state / f"checks_{device}.jsonl"
        state.mkdir(parents=True, exist_ok=True)
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        self.results = {r["name"]: r for r in map(json.loads, lines)}

    def make(self, name: str, check: Any) -> None:
        """Makes a check. `check()` returns whether it passed, and its findings."""
        if self.results.get(name, {}).get("passed"):
            return
        start = time.time()
        try:
            passed, found = check()
        except NotCapturedError as error:
            passed, found = None, f"nothing was captured: {error}"[:500]
        except (subprocess.SubprocessError, OSError, ValueError) as error:
            passed, found = False, f"{type(error).__name__}: {error}"[:500]
        seconds = round(time.time() - start, 1)
        result = {"name": name, "passed": passed, "found": found, "seconds": seconds}
        self.results[name] = result
        with self._log.open("a") as log:
            log.write(json.dumps(result) + "\n")
        verdict = {True: "passed", False: "FAILED", None: "skipped"}[passed]
        print(f"{verdict}  {name}: {found} ({seconds} s)", flush=True)

    def weights(self, tag: str, device: str, **job: Any) -> dict[str, np.ndarray]:
        """Returns `train(**job)` from a process on `device`, or from an earlier one."""
        path = self._state / (
            f"weights_{device}_{job['model']}_{job['learners']}_{job['cuda_graphs']}{tag}.npz"
        )
        if not path.exists():
            with path.with_suffix(".log").open("w") as log:
                subprocess.run(
                    [sys.executable, __file__, "--job", json.dumps(job), "--to", str(path)],
                    env=environment(device),
                    stdout=log,
                    stderr=log,
                    timeout=SECONDS,
                    check=True,
                )
        with np.load(path) as arrays:
            found = dict(arrays)
        devices = found.pop("devices")
        found.pop("learner devices", None)
        reason = str(found.pop("op by op", ""))
        if job["cuda_graphs"] == "on" and reason:
            raise NotCapturedError(reason)
        if not any(device.upper() in str(name) for name in devices):
            raise ValueError(f"the learners are on {devices}, wanted {device}")
        return found

    def same_weights(self, model: str, learners: int, graphs: str) -> tuple[bool, str]:
        job = {"model": model, "learners": learners, "iterations": ITERATIONS, "batch": BATCH}
        share = apart(
            self.weights("", self._device, **job, cuda_graphs=graphs),
            self.weights("", "cpu", **job, cuda_graphs="default"),
        )
        stock = dict(job, learners=0, cuda_graphs="default")
        theirs = apart(self.weights("", self._device, **stock), self.weights("", "cpu", **stock))
        wanted = max(TOLERANCE, MAGNIFIED * theirs)
        return (
            share <= wanted,
            f"differ by {share:.1e} of how far they moved, stock TensorFlow's by "
            f"{theirs:.1e}, wanted {wanted:.0e}",
        )

    def as_stock(self, model: str, graphs: str) -> tuple[bool, str]:
        job = {"model": model, "iterations": ITERATIONS, "batch": BATCH}
        stock = dict(job, learners=0, cuda_graphs="default")
        theirs = self.weights("", self._device, **stock)
        share = apart(self.weights("", self._device, **job, learners=1, cuda_graphs=graphs), theirs)
        wanted = max(TOLERANCE_STOCK, apart(theirs, self.weights("", "cpu", **stock)))
        return (
            share <= wanted,
            f"differ by {share:.1e} of how far they moved, wanted {wanted:.0e}",
        )

    def same_bits(self, model: str, learners: int, graphs: str) -> tuple[bool, str]:
        job = {"model": model, "learners": learners, "iterations": ITERATIONS, "batch": BATCH}
        first = self.weights("", self._device, **job, cuda_graphs=graphs)
        again = self.weights("_again", self._device, **job, cuda_graphs=graphs)
        differ = [n for n in first if first[n].tobytes() != again[n].tobytes()]
        return not differ, f"{len(differ)} of {len(first)} arrays differ"

    def own_handles(self) -> tuple[bool, str]:
        """Checks whether 4 learners share a stream, a cuDNN or cuBLAS handle, or an allocator."""
        job = {"model": "lenet", "learners": 4, "iterations": ITERATIONS, "batch": BATCH}
        self.weights("", self._device, **job, cuda_graphs="off")
        path = self._state / f"weights_{self._device}_lenet_4_off.npz"
        with np.load(path) as arrays:
            devices = [str(device) for device in arrays["learner devices"]]
        handles = [re.findall("0x[0-9a-f]+", device) for device in devices]
        own = len({handle for some in handles for handle in some})
        wanted = 4 * len(handles)
        return own == wanted and "0x0" not in sum(handles, []), f"{own} of {wanted}: {devices}"

    def memcheck(self) -> tuple[bool | None, str]:
        sanitizer = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
        if not os.path.exists(sanitizer):
            return None, "there is no compute-sanitizer"
        job = {
            "model": "logistic",
            "learners": 4,
            "iterations": MEMCHECK_ITERATIONS,
            "batch": 4,
            "cuda_graphs": "default",
        }
        path = self._state / "memcheck.log"
        command = [sanitizer, "--tool=memcheck", "--error-exitcode=9", f"--log-file={path}"]
        command += [sys.executable, __file__, "--job", json.dumps(job)]
        command += ["--to", str(self._state / "memcheck.npz")]
        with (self._state / "memcheck_output.log").open("w") as log:
            code = subprocess.run(
                command,
                env=environment(self._device),
                stdout=log,
                stderr=log,
                timeout=MEMCHECK_SECONDS,
            ).returncode
        summary = path.read_text().splitlines()[-1] if path.exists() else "no log"
        return code == 0, f"exit status {code}; {summary}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="only checks whose name contains this")
    parser.add_argument("--skip", help="not checks whose name contains this")
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--learners", type=int, nargs="+", default=LEARNERS)
    parser.add_argument("--graphs", nargs="+", default=["off", "on"])
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu")
    parser.add_argument("--state", type=pathlib.Path, default=pathlib.Path("build/gpu"))
    parser.add_argument("--until", type=float, help="begins no check after this UNIX time")
    parser.add_argument("--job", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--to", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.job:
        np.savez(arguments.to, **train(**arguments.job))
        return
    checks = Checks(arguments.state, arguments.device)
    wanted: dict[str, Any] = {}
    for model in arguments.models:
        for learners in arguments.learners:
            for graphs in arguments.graphs:
                case = (model, learners, graphs)
                name = f"{model}, {learners} learners, graphs {graphs}"
                wanted[f"same weights: {name}"] = lambda c=case: checks.same_weights(*c)
    for model in arguments.models:
        for graphs in arguments.graphs:
            name = f"as stock: {model}, graphs {graphs}"
            wanted[name] = lambda c=(model, graphs): checks.as_stock(*c)
    for graphs in arguments.graphs:
        case = ("lenet", 4, graphs)
        name = f"same bits: lenet, 4 learners, graphs {graphs}"
        wanted[name] = lambda c=case: checks.same_bits(*c)
    wanted["own handles"] = checks.own_handles
    wanted["memcheck"] = checks.memcheck
    wanted = {
        name: check
        for name, check in wanted.items()
        if arguments.only in name and not (arguments.skip and arguments.skip in name)
    }
    left_out = []
    for name, check in wanted.items():
        if arguments.until and time.time() > arguments.until:
            left_out.append(name)
        else:
            checks.make(name, check)
    failed = [name for name in wanted if checks.results.get(name, {}).get("passed") is False]
    print(f"{len(wanted) - len(failed) - len(left_out)} of {len(wanted)} checks did not fail")
    if failed or left_out:
        sys.exit(f"failed: {failed or 'none'}; not made for want of time: {left_out or 'none'}")


if __name__ == "__main__":
    main()
