"""The machine of the kill-and-resume test: processes that train until they are killed.

Run as a program it imports TensorFlow once and then forks a process for every line it reads: "train
<state> <progress> <last iteration> <save every>". That is sound because the process that forks has
one thread only, which it checks, and no session. It answers with the process id, and with the wait
status when the process has ended.

<progress> is a file of two bytes with the activity of the process, for the test that kills it.
"""

from __future__ import annotations

import mmap
import os
import sys

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

STARTING, LOADING, TRAINING, SAVING = range(4)


def train(state, progress, last, save_every):
    """Trains from the last state, or from the start, until iteration `last`; saves the end."""
    import state_programs
    import tensorflow as tf

    with open(progress, "r+b") as file:
        at = mmap.mmap(file.fileno(), 1)

    def save():
        at[0] = SAVING
        session.save_state(state)
        at[0] = TRAINING

    program = state_programs.network(lambda rate: tf.compat.v1.train.MomentumOptimizer(rate, 0.9))
    session = state_programs.session(program, batch_size=3, scheduling="round_robin")
    at[0] = LOADING
    if os.path.exists(state):
        session.load_state(state)
    else:
        session.run(program.init)
    at[0] = TRAINING
    while session.iterations < last:
        state_programs.step(program, session, session.iterations)
        if session.iterations % save_every == 0:
            save()
    save()


def main():
    """Serves until its input ends."""
    import tensorflow as tf

    import tensorbow  # noqa: F401  imported here once, for all processes

    tf.compat.v1.disable_eager_execution()
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        sys.exit(f"{threads} threads after importing TensorFlow: not sound to fork")
    print("ready", flush=True)
    for line in sys.stdin:
        _, state, progress, last, save_every = line.split()
        child = os.fork()
        if child == 0:
            try:
                train(state, progress, int(last), int(save_every))
                os._exit(0)
            except BaseException as error:
                print(repr(error), file=sys.stderr, flush=True)
                os._exit(1)
        print(child, flush=True)
        print(os.waitpid(child, 0)[1], flush=True)


if __name__ == "__main__":
    main()
