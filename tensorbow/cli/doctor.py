"""`tensorbow doctor`: versions, devices, a training test, faults and their remedies."""

from __future__ import annotations

import json
import pathlib
import platform
import signal
import subprocess
import sys
import tempfile
from typing import Any, NamedTuple

from tensorbow._runtime import loader
from tensorbow._runtime.messages import count
from tensorbow.cli.machine import Machine, this_machine

SECONDS_TO_TRAIN = 300
GIB = 1 << 30
MEMORY_WANTED_BYTES = 2 * GIB

# The program of a process of its own: if it crashes, the doctor reports it.
_EXAMINATION = """
import json, os, sys
sys.path[:] = json.loads(sys.argv[1])

def tell(**found):
    print("\\n" + json.dumps(found), flush=True)

try:
    import tensorflow
    path = os.path.dirname(tensorflow.__file__)
    tell(tensorflow=tensorflow.__version__, tensorflow_path=path)
except ImportError:
    pass  # tensorbow says so
try:
    from tensorbow.cli import examination
    tell(**examination.installed())
    tell(**examination.train())
except Exception as error:
    kind = "" if isinstance(error, ImportError) else type(error).__name__ + ": "
    tell(error=kind + str(error))
"""


class Finding(NamedTuple):
    """Something that is not as it should be.

    Attributes:
      fails: whether nothing trains because of it.
      what: a sentence.
      fix: what to do about it.
    """

    fails: bool
    what: str
    fix: str


def examine() -> dict[str, Any]:
    """Returns the facts that a fresh process finds while it trains; see `examination`.

    Where it does not come to the end, "error" says why, and "signal" what has ended it.
    """
    command = [sys.executable, "-c", _EXAMINATION, json.dumps(sys.path)]
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        try:
            process = subprocess.run(
                command, stdout=output, stderr=errors, timeout=SECONDS_TO_TRAIN
            )
        except subprocess.TimeoutExpired:
            ended = {"error": f"Training has not ended after {SECONDS_TO_TRAIN} seconds."}
        else:
            errors.seek(0)
            ended = _end_of(process.returncode, errors.read())
        output.seek(0)
        lines = [json.loads(line) for line in output if line.startswith("{")]
    report = {key: value for line in lines for key, value in line.items()}
    return {**ended, **report}


def _end_of(status: int, errors: str) -> dict[str, str]:
    """Returns the reason if a process ended early; else nothing."""
    if status == 0:
        return {}
    last = "".join("\n  " + line for line in errors.splitlines()[-5:])
    if status > 0:
        return {"error": f"A process that trains exits with {status}:{last}"}
    name = signal.Signals(-status).name
    return {"error": f"A process that trains is ended by {name}:{last}", "signal": name}


def _failure(report: dict[str, Any], machine: Machine) -> Finding:
    """Returns the reason why nothing trains."""
    how = report.get("signal")
    if machine.cpu_flags and "avx" not in machine.cpu_flags:
        fix = (
            "TensorFlow's packages take a processor with AVX, which this one is without; use "
            "another machine, or pass its processor through to the virtual one (qemu -cpu host)"
        )
    elif how == "SIGKILL":
        fix = "most likely memory has run out (see `dmesg`); grant the process more"
    elif how is not None:
        fix = (
            "TensorFlow and tensorbow do not fit together, or one of them is damaged; reinstall "
            "both (pip install --force-reinstall), then please report what is above"
        )
    else:  # errors of ours contain the remedy
        fix = "" if "Fix:" in report["error"] else "repair what the message names"
    return Finding(True, report["error"], fix)


def _of_the_processor(machine: Machine) -> list[Finding]:
    found = []
    if machine.cpu_flags and "avx2" not in machine.cpu_flags:
        found.append(
            Finding(
                False,
                "This processor has no AVX2: learners go without oneDNN's kernels.",
                "another machine; for a virtual one, pass its processor through (qemu -cpu host)",
            )
        )
    elif machine.environment.get("TF_ENABLE_ONEDNN_OPTS", "").lower() in ("0", "false"):
        found.append(
            Finding(
                False,
                "TF_ENABLE_ONEDNN_OPTS="
                f"{machine.environment['TF_ENABLE_ONEDNN_OPTS']} keeps oneDNN's kernels from "
                "learners and from TensorFlow; most networks train slower without them.",
                "unset TF_ENABLE_ONEDNN_OPTS",
            )
        )
    return found


def _of_the_cores(machine: Machine, cores: int) -> list[Finding]:
    found = []
    if machine.allowed_cpus < machine.cpus:
        found.append(
            Finding(
                False,
                f"The affinity mask leaves this process {machine.allowed_cpus} of "
                f"{machine.cpus} CPUs.",
                "if that is not meant: taskset -c, numactl, docker run --cpuset-cpus, or SLURM's "
                "--cpus-per-task",
            )
        )
    if cores < machine.allowed_cpus:
        found.append(
            Finding(
                False,
                f"Control groups grant this process the time of {cores} of "
                f"{machine.allowed_cpus} CPUs.",
                "if that is not meant: docker run --cpus, or Kubernetes's limits.cpu",
            )
        )
    if cores == 1:
        found.append(
            Finding(
                False,
                "There is one core for this process, so that there is one learner.",
                "two cores or more",
            )
        )
    return found


def _of_the_memory(machine: Machine) -> list[Finding]:
    limit = machine.memory_limit_bytes
    memory = machine.memory_bytes if limit is None else min(machine.memory_bytes, limit)
    if not 0 < memory < MEMORY_WANTED_BYTES:
        return []
    return [
        Finding(
            False,
            f"There are {memory / GIB:.1f} GiB of memory for this process. TensorFlow takes "
            "about half a GiB by itself, and every learner has a replica of the model.",
            "end other programs, or raise the limit (docker run --memory)",
        )
    ]


def _of_the_folder(folder: pathlib.Path) -> list[Finding]:
    """Finds sources in `folder` that have no native runtime: programs there use this package."""
    sources, installed = folder.resolve() / "tensorbow", loader.PACKAGE
    if sources == installed or not loader.is_unbuilt_checkout(sources):
        return []
    what = (
        f"In this folder programs use the TensorBow installed in {installed}, since the sources "
        f"in {sources} have no native runtime."
    )
    return [
        Finding(
            False, what, "install the sources in place if you want to use them (pip install -e .)"
        )
    ]


def findings(machine: Machine, report: dict[str, Any]) -> list[Finding]:
    """Returns everything that is wrong, the worst first.

    Args:
      machine: what the process runs on.
      report: what `examine` returned.
    """
    if "error" in report:
        return [_failure(report, machine), *_of_the_processor(machine), *_of_the_memory(machine)]
    found = []
    if not report["trains"]:
        found.append(
            Finding(
                True,
                f"Training does not find what it should: got {report['weight']:.4f}, wanted 2.",
                "please report this, with all that is above",
            )
        )
    if "keras_error" in report:
        found.append(Finding(False, report["keras_error"], ""))
    if report["gpus"] and not report["gpus_used"]:
        found.append(
            Finding(
                False,
                f"TensorFlow sees {count(report['gpus'], 'GPU')}, and learners use none: "
                f"libtensorbow_gpu.so is {report['gpu_library']}.",
                "install TensorFlow with GPUs (pip install 'tensorflow[and-cuda]') and nvcc, then "
                "reinstall tensorbow from its sources",
            )
        )
    return [
        *found,
        *_of_the_processor(machine),
        *_of_the_cores(machine, report["cores"]),
        *_of_the_memory(machine),
    ]


def describe(machine: Machine, report: dict[str, Any]) -> list[str]:
    """Returns a line for each thing that is installed, as far as the report goes."""
    memory = f"{machine.memory_bytes / GIB:.1f} GiB available"
    if machine.memory_limit_bytes is not None:
        memory += f", control groups grant {machine.memory_limit_bytes / GIB:.1f}"
    lines = [f"python       {platform.python_version()} on {platform.platform(terse=True)}"]
    if "tensorflow" in report:
        lines.append(f"tensorflow   {report['tensorflow']} ({report['tensorflow_path']})")
    if "tensorbow" in report:
        lines += [
            f"keras        {report['keras']}",
            f"numpy        {report['numpy']}",
            f"tensorbow    {report['tensorbow']} ({loader.PACKAGE})",
            f"  built for  TensorFlow {report['built_for']}, compiler {report['compiler']}",
            f"cores        {report['cores']} for this process",
            f"gpus         {report['gpus']}, of which learners use {report['gpus_used']}",
            f"gpu library  {report['gpu_library']}",
        ]
    lines.append(f"memory       {memory}")
    if "trains" in report:
        lines += [f"device       {device}" for device in report["devices"]]
        verdict = "works" if report["trains"] else "FAILED"
        lines.append(
            f"training     {verdict}: two learners found {report['weight']:.4f} (wanted 2)"
        )
    return lines


def run() -> int:
    """Prints what is installed and what is wrong; 0 if it trains."""
    print("tensorbow doctor: training in another process", file=sys.stderr, flush=True)
    machine, report = this_machine(), examine()
    found = findings(machine, report) + _of_the_folder(pathlib.Path.cwd())
    for line in describe(machine, report):
        print(line)
    for finding in found:
        print(f"{'FAILED' if finding.fails else 'warning':<13}{finding.what}")
        if finding.fix:
            print(f"{'':<13}Fix: {finding.fix}.")
    return int(any(finding.fails for finding in found))
