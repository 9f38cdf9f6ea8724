"""Writes docs/compatibility.md: every program, stock and TensorBow side by side.

    python -m tests.programs.table [PROGRAM …]

runs the named programs, or all, and keeps the other rows. `programs_test` runs the same
comparisons and keeps the table's rows true.
"""

from __future__ import annotations

import pathlib
import sys

from tests.programs import _harness, _judgement

FILE = pathlib.Path(__file__).parents[2] / "docs" / "compatibility.md"

_BEFORE = """\
# Programs that run unchanged

Each row is a small program in `tests/programs/`, written as such programs are written for
TensorFlow 1. It is run with stock sessions, with one learner and with two; nothing in it
changes but where its sessions come from. `python -m tests.programs.table` runs all of them and
writes this file; `tests/programs/programs_test.py` runs them again and checks what it says.

* **stock**, **two learners**: the metric for three seeds (↑ higher is better, ↓ lower). Two
  learners count as equal if their mean is no worse than stock's by more than the noise: the
  spread of stock's own three values, at least the tolerance that the program states.
* **one learner**: numbers of the first seed (results, weights, losses on the way) that equal
  stock's to the last bit, of so many compared. Stock computes on one thread.
* **trained by**: with two learners, who executed the learning runs; if not both, or if two
  cannot be faster than one, why. The program gets a `TensorBowWarning` that says so, and what
  to do.

"""

_AFTER = """
## When one learner does all the work

A run whose rows cannot be divided is left to one learner, which does what stock TensorFlow
would. The warning names the operation that works on several rows at once, or the feed that may
or may not have rows. Sometimes a little makes such a program parallel:

* *One batch of a fixed number of rows*: declare the placeholder `[None, …]`, or feed a multiple
  of its rows, and each learner takes one such batch after another.
* *A table or a state next to the rows*: `Options(replicate=[table])` if every learner needs it
  whole, `Options(shard=[state])` if it has one row per sample.
* *A SparseTensor whose indices are not sorted by row*: `tf.sparse.reorder` it before it
  is fed.

## Sessions that other code makes

* `MonitoredSession(session_creator=tensorbow.SessionCreator(checkpoint_dir=…))` instead of
  `ChiefSessionCreator`; hooks, scaffold and checkpoints as always.
* `Supervisor(session_manager=tensorbow.SessionManager(…))`.
* Where only a target string can be given (`MonitoredTrainingSession(master="tensorbow")`): the
  string `tensorbow` makes a session with default options, but on this host alone and with one
  learner for every core all the time.

## What several learners change

* `global_step` counts the runs, as stock's does, and a run takes one batch from a pipeline or a
  queue, as stock's does.
* A scalar that is fetched with the train op, a mean, a sum or a count, is that of all rows of
  the run.
* A run of another thread does not wait for learners that wait for data: an actor that asks the
  model and then enqueues what they wait for is given the central values of their run's beginning.

## What is not there

Partial runs (`partial_run_setup`, `partial_run`), tensor handles and collective operations are
executed on the central model only.
"""


def row(name: str, result: _harness.Comparison) -> str:
    """One line of the table."""
    arrow = "↑" if result.quality.higher_is_better else "↓"
    equal = "all" if not result.differences else f"{len(result.differences)} differ"
    cells = [
        f"`{name}`",
        result.title,
        f"{result.quality.name} {arrow}",
        " · ".join(f"{value:.3g}" for value in result.stock),
        f"{equal} of {result.numbers}",
        " · ".join(f"{value:.3g}" for value in result.several),
        f"{result.noise:.2g}",
        result.learners + (f" ({result.reason})" if result.reason else ""),
    ]
    return "| " + " | ".join(cells) + " |"


def rows() -> dict[str, str]:
    """Returns the file's lines by program."""
    lines = FILE.read_text().splitlines()
    return {line.split("`")[1]: line for line in lines if line.startswith("| `")}


def stock(line: str) -> list[float]:
    """Returns stock's quality by seed, by a line of the table."""
    return [float(value) for value in line.strip("| ").split(" | ")[3].split(" · ")]


def trained_by(line: str) -> str:
    """Returns the learners that trained by a line of the table, and the reason."""
    return line.strip("| ").split(" | ")[-1]


def text(lines: dict[str, str]) -> str:
    """Returns the whole file, given its lines by program."""
    header = "| program | what is in it | metric | stock | one learner | two learners | noise |"
    table = [header + " trained by |", "|---" * 8 + "|", *lines.values()]
    return _BEFORE + "\n".join(table) + "\n" + _AFTER


def main() -> None:
    known = rows() if len(sys.argv) > 1 else {}
    lines = {}
    for name in _judgement.names():
        missing = _harness.missing_packages(name)
        if missing and name not in known:
            sys.exit(f"{name} needs {', '.join(missing)}: pip install -r tools/requirements.txt")
        if not missing and (name in sys.argv[1:] or name not in known):
            known[name] = row(name, _harness.compare(name))
            print(known[name], flush=True)
        lines[name] = known[name]
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(text(lines))


if __name__ == "__main__":
    main()
