"""Measures contenders side by side: one process each, taking turns in short slices.

Machines are noisy and clocks drift, so numbers are only compared within one call. Ratios are
formed slice by slice before the median is taken.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import IO, Any

import numpy as np
from contenders import Contender, kernel_seconds, maker

# The number of lines shown of the output of a process that has ended.
_LAST_LINES = 20


class ProcessEndedError(RuntimeError):
    """A contender's process has ended by itself."""


def environment(device: str) -> dict[str, str]:
    """Returns the environment of a process on `device`: it sees no GPU or shares one."""
    if device == "cpu":
        return dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
    found = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="2", TF_FORCE_GPU_ALLOW_GROWTH="true")
    # Contenders share one GPU. The tests' modules hide all GPUs if this is not set.
    return {"CUDA_VISIBLE_DEVICES": "0"} | found


class Process:
    """A contender in a process of its own; waits idly between its slices."""

    def __init__(self, contender: Contender, model: str, log: IO[str] | None = None) -> None:
        self.contender = contender
        job = dict(dataclasses.asdict(contender), model=model)
        script, variables = __file__, environment(contender.device)
        self._log = log or tempfile.TemporaryFile("w+")  # noqa: SIM115 - ends with this
        if contender.tree:
            script = f"{contender.tree}/benchmarks/interleave.py"
            variables["PYTHONPATH"] = contender.tree
        self._process = subprocess.Popen(
            [contender.python or sys.executable, script, json.dumps(job)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=variables | contender.environment,
        )
        self._steps = 1

    def wait_until_ready(self) -> None:
        self.seconds(1)  # compiles

    def seconds(self, steps: int) -> float:
        """Trains for some steps; returns their seconds."""
        return self._ask(str(steps), "seconds")

    def value(self) -> float:
        """Returns the stepper's `value()`, e.g. the loss."""
        return self._ask("value", "value")

    def _ask(self, question: str, answer: str) -> float:
        self.tell(question)
        return self.hear(answer)

    def tell(self, question: str) -> None:
        """Starts the work whose result hear() waits for."""
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):  # its output shows that it has ended
            self._process.stdin.write(f"{question}\n")
            self._process.stdin.flush()

    def hear(self, answer: str) -> float:
        """Waits for the answer and returns it by its name."""
        assert self._process.stdout
        for line in self._process.stdout:
            if line.startswith(f"{answer} "):
                return float(line.split()[1])
        code = self._process.wait()
        self._log.seek(0)
        last = "".join(self._log.readlines()[-_LAST_LINES:]) if self._log.readable() else ""
        raise ProcessEndedError(f"{self.contender.name} ended with {code}\n{last}")

    def calibrate(self, seconds: float) -> None:
        """Chooses the number of steps that take about `seconds`."""
        self.seconds(10)
        while True:
            taken = self.seconds(self._steps)
            if taken > seconds / 4:
                break
            self._steps *= 2
        self._steps = max(1, round(self._steps * seconds / taken))

    def slice(self) -> float:
        """Returns the samples per second of one slice."""
        return self._steps * self.contender.rows_per_step / self.seconds(self._steps)

    def close_input(self) -> None:
        """Lets the process end."""
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def end(self) -> None:
        self.close_input()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()


def in_turns(processes: dict[str, Process], slices: int) -> dict[str, list[float]]:
    """Returns samples/s by slice of contenders that are ready; each slice starts with another
    one."""
    speeds: dict[str, list[float]] = {name: [] for name in processes}
    order = list(processes)
    for _ in range(slices):
        for name in order:
            speeds[name].append(processes[name].slice())
        order = order[1:] + order[:1]
    return speeds


def measure(
    model: str,
    contenders: Sequence[Contender],
    slices: int,
    seconds: float,
) -> dict[str, list[float]]:
    """Returns samples/s of every contender by slice; slice k of all contenders has one time.

    A slice takes about `seconds`; with 0 seconds it is one step.
    """
    processes = [Process(contender, model) for contender in contenders]
    for process in processes:
        process.wait_until_ready()
        if seconds > 0:
            process.calibrate(seconds)
    speeds: dict[str, list[float]] = {c.name: [] for c in contenders}
    order = list(processes)
    shuffle = random.Random(0)
    for _ in range(slices):
        shuffle.shuffle(order)
        for process in order:
            speeds[process.contender.name].append(process.slice())
    for process in processes:
        process.end()
    return speeds


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Returns the median, first and third quartile."""
    quartiles = np.percentile(values, [50, 25, 75])
    return float(quartiles[0]), float(quartiles[1]), float(quartiles[2])


def processor() -> str:
    """Returns the processor's name and, since TensorFlow chooses kernels by it, its widest
    instruction set."""
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    facts = dict(map(str.strip, line.split(":", 1)) for line in lines if ":" in line)
    name = facts.get("model name", platform.processor())
    flags = facts.get("flags", "").split()
    sets = [s for s in ("avx512_vnni", "avx512f", "avx2", "avx") if s in flags]
    return f"{name} with {sets[0].upper()}" if sets else name


def machine() -> dict[str, Any]:
    """Describes the machine of the measurement."""
    import keras
    import tensorflow as tf

    return {
        "cpu": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "date": time.strftime("%Y-%m-%d"),
    }


def told(where: dict[str, Any]) -> str:
    """Returns `machine()` as a sentence."""
    return (
        f"{where['cpu']}, {where['cores']} cores, {where['memory_gib']} GiB; TensorFlow "
        f"{where['tensorflow']}, Python {where['python']}; {where['date']}."
    )


def answer_of(script: str, *arguments: str) -> Any:
    """Returns the last output of a script, as JSON; executes it in a process on the CPU."""
    process = subprocess.run(
        [sys.executable, script, *arguments],
        capture_output=True,
        text=True,
        env=environment("cpu"),
        check=True,
    )
    return json.loads(process.stdout.splitlines()[-1])


def floor(model: str, rows: int) -> float:
    """Returns `contenders.kernel_seconds` from a process of its own."""
    job = json.dumps({"kernel_seconds": {"model": model, "rows": rows}})
    return float(answer_of(__file__, job))


def _main() -> None:
    job = json.loads(sys.argv[1])
    if "kernel_seconds" in job:
        print(kernel_seconds(**job["kernel_seconds"]))
        return
    step = maker(job["make"])(job["model"], job["rows_per_step"], **job["settings"])
    for line in sys.stdin:
        if line.strip() == "value":
            print("value", step.value(), flush=True)  # type: ignore[attr-defined]
            continue
        start, work = time.perf_counter(), time.process_time()
        step(int(line))
        print("work", time.process_time() - work)
        print("seconds", time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    _main()
