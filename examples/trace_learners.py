"""Records the activity of two learners, and draws some of their runs.

    python examples/trace_learners.py [--trace trace.json] [--picture trace.svg] [--runs 1]

Trains LeNet on made-up images. The trace opens in https://ui.perfetto.dev as it is; the
picture shows the last runs of it.
"""

import json

import numpy as np
import tensorflow.compat.v1 as tf
from absl import app, flags

import tensorbow
from tensorbow import models

FLAGS = flags.FLAGS
flags.DEFINE_string("trace", "trace.json", "where the trace goes")
flags.DEFINE_string("picture", None, "where a picture of it goes (.svg or .png), if anywhere")
flags.DEFINE_integer("runs", 1, "runs in the picture", lower_bound=1)

ROWS = 32
COLOURS = {
    "task": "#d9d9d9",
    "feed": "#80b1d3",
    "update": "#8dd3a0",
    "average": "#fdb462",
    "correct": "#fb8072",
    "wait": "#bebada",
}


def record(path: str) -> None:
    """Trains LeNet for some runs, the last ones traced."""
    program = models.build("lenet", (28, 28, 1), 10, lambda: tf.train.AdamOptimizer(1e-3), seed=1)
    random = np.random.default_rng(0)
    feeds = {
        program.images: random.random((ROWS, 28, 28, 1), np.float32),
        program.labels: random.integers(0, 10, ROWS),
    }
    options = tensorbow.Options(learners_per_device=2, synchroniser=tensorbow.SMA())
    with tensorbow.TensorBowSession(graph=program.graph, options=options) as session:
        session.run(program.init)
        for _ in range(30):
            session.run(program.train_op, feeds)
        with session.trace(path):
            for _ in range(10):
                session.run(program.train_op, feeds)
        metrics = session.metrics()
    print(f"{metrics.samples_per_second:,.0f} samples/s, {metrics.synchronisation:.1%} together")
    for j, learner in enumerate(metrics.learners):
        print(
            f"learner {j}: {learner.tasks} tasks of {learner.task_seconds.median * 1e3:.2f} ms, "
            f"waits {learner.wait_seconds.median * 1e3:.2f} ms"
        )


def draw(trace: str, picture: str, runs: int) -> None:
    """Draws the last runs of a trace, a row for each lane."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "trace"
    matplotlib.rcParams["svg.fonttype"] = "none"  # keeps text as text
    import matplotlib.pyplot as plt

    with open(trace, encoding="utf-8") as file:
        found = json.load(file)["traceEvents"]
    lanes = {e["tid"]: e["args"]["name"] for e in found if e["name"] == "thread_name"}
    events = [e for e in found if e["ph"] == "X"]
    begin = sorted(e["ts"] for e in events if e["name"].startswith("run "))[-runs]
    figure, axes = plt.subplots(figsize=(10, 0.8 + 0.6 * len(lanes)))
    for event in sorted(events, key=lambda e: -e["dur"]):  # inner events come last
        if event["ts"] < begin:
            continue
        kind = event["name"].split()[0]
        bar = ((event["ts"] - begin) / 1e3, event["dur"] / 1e3)
        inside = kind not in ("run", "task")
        low = event["tid"] - (0.25 if inside else 0.4)
        axes.broken_barh(
            [bar], (low, 0.5 if inside else 0.8), color=COLOURS.get(kind, "#b0b0b0"), linewidth=0
        )
    for kind, colour in COLOURS.items():
        axes.broken_barh([(0, 0)], (0, 0), color=colour, label=kind)
    axes.set_yticks(list(lanes), list(lanes.values()))
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.3), ncols=len(COLOURS), frameon=False)
    figure.tight_layout()
    figure.savefig(picture, metadata={"Date": None} if picture.endswith(".svg") else None)


def main(_: list[str]) -> None:
    record(FLAGS.trace)
    print(f"the trace is in {FLAGS.trace}")
    if FLAGS.picture:
        draw(FLAGS.trace, FLAGS.picture, FLAGS.runs)
        print(f"the picture is in {FLAGS.picture}")


if __name__ == "__main__":
    app.run(main)
