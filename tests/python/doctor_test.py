"""`tensorbow doctor`: its output, its findings, and its failures."""

import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import tensorflow as tf

import tensorbow
from tensorbow import _native, cli
from tensorbow.cli import doctor, examination
from tensorbow.cli.machine import Machine, memory_limit_bytes, this_machine

GIB = 1 << 30
MACHINE = Machine(
    cpu_flags=frozenset({"avx", "avx2", "fma"}),
    cpus=8,
    allowed_cpus=8,
    memory_bytes=16 * GIB,
    memory_limit_bytes=None,
    environment={},
)
REPORT = {
    "tensorflow": "2.21.0",
    "tensorflow_path": "/site-packages/tensorflow",
    "keras": "3.15.1",
    "numpy": "2.4.6",
    "tensorbow": "0.1.0",
    "built_for": "2.21.0",
    "compiler": "12.2.0",
    "cores": 8,
    "gpus": 0,
    "gpus_used": 0,
    "gpu_library": "not built",
    "devices": ["/device:CPU:0"],
    "weight": 2.0,
    "trains": True,
}


def found(report=None, **machine):
    """Returns the findings for a machine and a report that are in order except for these."""
    faked = dataclasses.replace(MACHINE, **machine)
    return doctor.findings(faked, REPORT if report is None else report)


def the_warning(*arguments, **machine):
    (finding,) = found(*arguments, **machine)
    assert not finding.fails
    return finding


def test_nothing_is_wrong_where_all_is_in_order():
    assert found() == []


def test_this_installation_trains(capsys):
    assert cli.main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    says = dict(line.strip().split(maxsplit=1) for line in lines if not line.startswith("warning"))
    assert says["tensorflow"].split()[0] == tf.__version__
    assert says["tensorbow"].split()[0] == tensorbow.__version__
    assert says["built"].startswith(f"for  TensorFlow {_native.tensorflow_version}, compiler ")
    assert says["cores"] == f"{tensorbow.Options().num_learners} for this process"
    assert says["device"] == "/job:localhost/replica:0/task:0/device:CPU:0"
    assert says["training"] == "works: two learners found 2.0000 (wanted 2)"


@pytest.mark.parametrize(
    ("machine", "what", "fix"),
    [
        (
            {"cpu_flags": frozenset({"avx"})},
            "This processor has no AVX2: learners go without oneDNN's kernels.",
            "qemu -cpu host",
        ),
        (
            {"environment": {"TF_ENABLE_ONEDNN_OPTS": "0"}},
            "TF_ENABLE_ONEDNN_OPTS=0 keeps oneDNN's kernels from learners",
            "unset TF_ENABLE_ONEDNN_OPTS",
        ),
        (
            {"cpus": 64},
            "The affinity mask leaves this process 8 of 64 CPUs.",
            "taskset",
        ),
        (
            {"allowed_cpus": 16, "cpus": 16},
            "Control groups grant this process the time of 8 of 16 CPUs.",
            "docker run --cpus",
        ),
        (
            {"memory_bytes": GIB},
            "There are 1.0 GiB of memory for this process.",
            "docker run --memory",
        ),
        (
            {"memory_limit_bytes": 3 * GIB // 2},
            "There are 1.5 GiB of memory for this process.",
            "docker run --memory",
        ),
    ],
    ids=["avx2", "onednn", "affinity", "cpu quota", "memory", "memory limit"],
)
def test_what_slows_learners_is_named_with_its_remedy(machine, what, fix):
    warning = the_warning(**machine)
    assert warning.what.startswith(what)
    assert fix in warning.fix


@pytest.mark.parametrize("value", ["1", "true", ""])
def test_onednn_that_is_not_off_is_no_finding(value):
    assert found(environment={"TF_ENABLE_ONEDNN_OPTS": value}) == []


def test_one_core_is_one_learner():
    warning = the_warning({**REPORT, "cores": 1}, cpus=1, allowed_cpus=1)
    assert "there is one learner" in warning.what


def test_unused_gpus_and_another_keras_are_named():
    warning = the_warning({**REPORT, "gpus": 2})
    assert "sees 2 GPUs, and learners use none: libtensorbow_gpu.so is not built" in warning.what
    assert the_warning({**REPORT, "keras_error": "Keras 2.15"}).what == "Keras 2.15"


def test_wrong_training_fails(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "examine", lambda: {**REPORT, "weight": 0.5, "trains": False})
    assert doctor.run() == 1
    output = capsys.readouterr().out
    assert "training     FAILED: two learners found 0.5000 (wanted 2)" in output
    assert "\nFAILED       Training does not find what it should: got 0.5000, wanted 2." in output


def test_training_that_does_nothing_is_wrong(monkeypatch):
    class Stuck(tensorbow.TensorBowSession):
        """A session whose training steps do nothing."""

        def run(self, fetches, feed_dict=None, options=None, run_metadata=None):
            return None if feed_dict else super().run(fetches)

    monkeypatch.setattr(tensorbow, "TensorBowSession", Stuck)
    trained = examination.train()
    assert (trained["weight"], trained["trains"]) == (0, False)


@pytest.mark.parametrize(
    ("code", "status", "says", "fix"),
    [
        ("import os; os.abort()", -6, "is ended by SIGABRT", "do not fit together"),
        ("import os; os.kill(os.getpid(), 9)", -9, "is ended by SIGKILL", "memory has run out"),
        ("import sys; sys.exit('no')", 1, "exits with 1:\n  no", "what the message names"),
        (
            "import signal; signal.pause()",
            None,
            "has not ended after 1 seconds",
            "the message names",
        ),
    ],
    ids=["abort", "kill", "exit", "hang"],
)
def test_a_process_that_ends_early_is_explained(code, status, says, fix, monkeypatch):
    monkeypatch.setattr(doctor, "_EXAMINATION", 'print(\'\\n{"tensorflow": "2"}\')\n' + code)
    monkeypatch.setattr(doctor, "SECONDS_TO_TRAIN", 1 if status is None else 60)
    report = doctor.examine()
    (failure,) = found(report)
    assert failure.fails
    assert says in failure.what
    assert fix in failure.fix


def test_a_processor_without_avx_is_why_tensorflow_aborts():
    report = {"error": "A process that trains is ended by SIGABRT:", "signal": "SIGABRT"}
    failure, *others = found(report, cpu_flags=frozenset({"sse4_2"}))
    assert "take a processor with AVX" in failure.fix
    assert [other.fails for other in others] == [False]


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1000\n"}, 1000),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/memory.max": "1000\n",
                "sys/fs/cgroup/a/b/memory.max": "2000\n",
            },
            1000,
        ),
        (
            {
                "proc/self/cgroup": "5:cpu:/\n4:memory:/job\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
                "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "3000\n",
            },
            3000,
        ),
    ],
    ids=["no groups", "no limit", "container", "nested", "version 1"],
)
def test_memory_limit_is_the_least_of_the_groups(files, limit, tmp_path):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert memory_limit_bytes(tmp_path) == limit


def test_a_machine_is_read_from_its_files(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 9 kB\nMemAvailable:       8 kB\n")
    (tmp_path / "proc/cpuinfo").write_text("processor\t: 0\nflags\t\t: fpu avx avx2\n")
    machine = this_machine(tmp_path)
    assert machine.memory_bytes == 8192
    assert machine.cpu_flags == {"fpu", "avx", "avx2"}
    assert machine.allowed_cpus == len(os.sched_getaffinity(0)) <= machine.cpus


@pytest.fixture
def copy(tmp_path):
    """Copies the package, to be broken."""
    shutil.copytree(pathlib.Path(tensorbow.__file__).parent, tmp_path / "tensorbow")
    return tmp_path


def doctor_of(directory, *command):
    """Returns the doctor's output on a copy that does not work."""
    process = subprocess.run(
        [sys.executable, *command, "doctor"],
        cwd=directory,
        env={"PYTHONPATH": str(directory), "TF_CPP_MIN_LOG_LEVEL": "3", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert process.returncode == 1, process.stderr
    assert "Traceback" not in process.stderr
    return process.stdout


def test_a_missing_runtime_is_named(copy):
    (copy / "tensorbow" / "libtensorbow.so").unlink()
    script = copy / "bin" / "tensorbow"
    script.parent.mkdir()
    script.write_text("import sys\nfrom tensorbow.cli import main\nsys.exit(main())\n")
    output = doctor_of(copy, str(script))
    assert re.search(rf"^tensorflow   {re.escape(tf.__version__)} ", output, re.M)
    says = r"^FAILED       TensorBow cannot start .*its native runtime is not in.*Fix: reinstall"
    assert re.search(says, output, re.M)


def test_another_tensorflow_is_named(copy):
    (copy / "tensorflow").mkdir()
    (copy / "tensorflow" / "__init__.py").write_text('__version__ = "2.18.0"\n')
    output = doctor_of(copy, "-m", "tensorbow")
    assert "tensorflow   2.18.0 (" in output
    assert "\nFAILED       TensorBow found TensorFlow 2.18.0, but wants" in output
