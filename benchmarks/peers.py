"""Other ways to train the same networks: MirroredStrategy, PyTorch, JAX.

    make peers
    python benchmarks/peers.py [--networks NAME …] [--slices N] [--output NAME]

Networks of networks.py, as many rows fed to a run in all columns. PyTorch and JAX are installed in
an environment of their own (`make peers`). Writes benchmarks/results/NAME.{json,md}.
"""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import network_table
import numpy as np
import peers_jax
import peers_torch
from contenders import WITH_ONEDNN, Contender
from interleave import Process, in_turns, spread, told
from networks import NETWORKS

PYTHON = pathlib.Path(__file__).parents[1] / "build/peers/bin/python"
STOCK, ONEDNN = "tf.Session", "tf.Session, oneDNN on"
OURS, MIRRORED = "TensorBow", "MirroredStrategy"
TORCH, TORCH_DISTRIBUTED = "PyTorch", "PyTorch, DDP"
JAX, JAX_REPLICAS = "JAX, jit", "JAX, vmap"
CHANNELS_LAST = ", channels last"
COLUMNS = [ONEDNN, OURS, MIRRORED, TORCH, TORCH_DISTRIBUTED, JAX, JAX_REPLICAS]
COMPARED = [name for name in NETWORKS if name in peers_torch.MODELS and name in peers_jax.MODELS]


class DifferentNetworksError(RuntimeError):
    """Contenders that should train one network do not."""


def contenders(model: str, python: str = str(PYTHON)) -> list[Contender]:
    """Returns all contenders for one network; `python` has PyTorch and JAX."""
    rows = NETWORKS[model].rows

    def peer(name: str, make: str, **settings: Any) -> Contender:
        return Contender(name, make, rows, settings, python=python)

    found = [
        Contender(STOCK, "network_session", rows, {"learners": 0}),
        Contender(ONEDNN, "network_session", rows, {"learners": 0}, environment=WITH_ONEDNN),
        Contender(OURS, "network_session", rows, {"learners": "auto"}),
        Contender(MIRRORED, "mirrored_network", rows),
        peer(TORCH, "torch_network"),
        peer(TORCH_DISTRIBUTED, "torch_distributed"),
        peer(JAX, "jax_network"),
        peer(JAX_REPLICAS, "jax_network", replicas=0),
    ]
    images = NETWORKS[model].feeds(np.random.default_rng(0), 1)[0].ndim == 4
    if images:
        found.append(peer(TORCH + CHANNELS_LAST, "torch_network", channels_last=True))
        distributed = TORCH_DISTRIBUTED + CHANNELS_LAST
        found.append(peer(distributed, "torch_distributed", channels_last=True))
    return found


def measure(name: str, slices: int, seconds: float) -> dict[str, Any]:
    """Returns samples/s of each contender by slice, and the number of learners found.

    Raises:
      DifferentNetworksError: if contenders count different numbers of parameters.
    """
    processes = {}
    for contender in contenders(name):  # one after the other: tuning measures, too
        process = processes[contender.name] = Process(contender, name)
        process.wait_until_ready()
        process.calibrate(seconds)
    counted = {k: int(p.value()) for k, p in processes.items() if k not in (STOCK, ONEDNN, OURS)}
    if len(set(counted.values())) > 1:
        raise DifferentNetworksError(f"parameters of {name}: {counted}")
    speeds = in_turns(processes, slices)
    learners = int(processes[OURS].value())
    for process in processes.values():
        process.end()
    return {
        "samples_per_second": speeds,
        "learners": learners,
        "parameters": counted[MIRRORED],
    }


def ratios(found: dict[str, Any], column: str) -> list[float]:
    """Returns ratios to stock by slice, for PyTorch with its faster layout of images."""
    speeds = found["samples_per_second"]
    layouts = [speeds[name] for name in (column, column + CHANNELS_LAST) if name in speeds]
    return list(np.divide(max(layouts, key=np.median), speeds[STOCK]))


def document(where: dict[str, Any], rows: dict[str, Any], slices: int, seconds: float) -> str:
    """Returns the report as Markdown."""
    lines = [
        "# The same networks by other systems, at the same fed batch",
        "",
        f"{told(where)} PyTorch {where['torch']}, JAX {where['jax']}. Samples/s ÷ those of "
        f"`tf.Session`, medians of {slices} interleaved slices with quartiles; the largest is "
        "bold.",
        "",
        "All are fed NumPy arrays. *oneDNN on*: with TF_ENABLE_ONEDNN_OPTS=1, which TensorFlow "
        "does by itself on processors with AVX512_VNNI. TensorBow: default options, after its "
        "number of learners has been found. MirroredStrategy: a logical CPU for each core. "
        "PyTorch: eager, fused optimisers, all cores, the faster of its two layouts for images; "
        "DDP: over gloo, a process of one thread for each core. JAX: `jit` with optax; `vmap`: a "
        "replica for each core, averaged.",
        "",
        f"| network, rows of a run | {STOCK}, samples/s | " + " | ".join(COLUMNS) + " |",
        "|---|---" + "|---" * len(COLUMNS) + "|",
    ]
    for name, found in rows.items():
        cells = []
        best = max(COLUMNS, key=lambda column: np.median(ratios(found, column)))
        for column in COLUMNS:
            median, low, high = spread(ratios(found, column))
            told_median = f"**{median:.2f}**" if column == best else f"{median:.2f}"
            cells.append(f"{told_median} ({low:.2f}–{high:.2f})")
        stock = spread(found["samples_per_second"][STOCK])[0]
        lines.append(f"| {name} | {stock:,.0f} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def versions() -> dict[str, str]:
    """Returns the versions of PyTorch and JAX in their environment."""
    import subprocess

    program = "from importlib.metadata import version as v; print(v('torch'), v('jax'))"
    answer = subprocess.run([PYTHON, "-c", program], capture_output=True, text=True, check=True)
    torch, jax = answer.stdout.split()
    return {"torch": torch, "jax": jax}


def main() -> None:
    if not PYTHON.exists():
        sys.exit(f"PyTorch and JAX are not installed in {PYTHON.parents[1]}: call `make peers`.")
    numbers: dict[str, int | float] = {"slices": 7, "seconds": 0.5}
    found = versions()

    def with_versions(where: dict[str, Any], *arguments: Any, **named: Any) -> str:
        return document(where | found, *arguments, **named)

    description = __doc__.splitlines()[0]
    network_table.make(description, "peers", COMPARED, numbers, measure, with_versions)


if __name__ == "__main__":
    main()
