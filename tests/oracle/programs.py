"""The drawn programs: a small network in every form that matters to learners.

`Program` lists its parts, `Built` is its graph with everything that a history of actions may run.
Nothing here knows of TensorBow.
"""

from __future__ import annotations

import contextlib
import dataclasses

import numpy as np
import tensorflow as tf

from tests.oracle.described import Described, described

tf1 = tf.compat.v1

COLUMNS, IDS, HIDDEN = 3, 5, 2
ELEMENT_ROWS, ELEMENTS = 3, 9  # of the pipeline
NO_DROPOUT = 0.5  # a draw that keeps everything

OPTIMISERS = {
    "gd": tf1.train.GradientDescentOptimizer,
    "momentum": lambda rate: tf1.train.MomentumOptimizer(rate, 0.875),
    "nesterov": lambda rate: tf1.train.MomentumOptimizer(rate, 0.875, use_nesterov=True),
    "adam": tf1.train.AdamOptimizer,
    "adagrad": tf1.train.AdagradOptimizer,
    "rmsprop": tf1.train.RMSPropOptimizer,
}
BY_HAND = ("hand", "hand_momentum")


@described
class Program(Described):
    """The parts of a program."""

    variables: str = "resource"  # or "ref"
    dtype: str = "float64"  # or "float32"
    inputs: str = "dense"  # "sparse": an embedding beside the dense columns
    optimiser: str = "gd"  # of OPTIMISERS or BY_HAND
    loss: str = "mean"  # or "mean_l2"
    flow: str = "none"  # "cond", "cond_v2", "while", "while_v2"
    norm: str = "none"  # "fused", "moments"
    dropout: bool = False
    data: str = "fed"  # "pipeline"

    def __post_init__(self):
        assert self.norm != "fused" or self.dtype == "float32", "TensorFlow has no other"


@dataclasses.dataclass
class TrainOp:
    """One way to train: an operation and its effects."""

    op: tf.Operation
    trained: list  # names of variables
    written: list  # names of all variables that it changes, including the trained ones
    gradients: list  # in the order of `trained`


class Built:
    """A program's graph."""

    def __init__(self, program):
        self.program = program
        self.dtype = tf.as_dtype(program.dtype)
        self.graph = tf.Graph()
        self.ops = {}
        self._additions = {}
        self._random = np.random.default_rng(1)
        with self._building():
            tf1.set_random_seed(7)
            self.step = tf1.train.get_or_create_global_step()
            self.rate = tf1.placeholder_with_default(self._array(0.02), [], name="rate")
            self._inputs()
            self._model_variables()
            self.rows, self.loss = self._forward(training=True)
            if program.norm == "none":
                self.evaluated = self.loss
            else:
                self.evaluated = self._forward(training=False)[1]
            self._optimiser = OPTIMISERS.get(program.optimiser, lambda rate: None)(self.rate)
            self._model = tf1.trainable_variables()
            self._train_op("train", self.loss, self._model)
            self.init = tf1.global_variables_initializer()
            self.saver = tf1.train.Saver()

    # ---------------------------------------------------------------------- its parts

    @contextlib.contextmanager
    def _building(self):
        """Makes the graph the default one, with the program's control flow."""
        enabled = tf1.control_flow_v2_enabled()
        use_v2 = self.program.flow.endswith("v2")
        (tf1.enable_control_flow_v2 if use_v2 else tf1.disable_control_flow_v2)()
        try:
            with self.graph.as_default():
                yield
        finally:
            (tf1.enable_control_flow_v2 if enabled else tf1.disable_control_flow_v2)()

    def _array(self, values):
        return np.asarray(values, self.dtype.as_numpy_dtype)

    def _variable(self, name, shape, trainable=True, value=None):
        if value is None:
            value = 0.5 * self._random.standard_normal(shape)
        return tf1.get_variable(
            name,
            dtype=self.dtype,
            initializer=self._array(np.broadcast_to(value, shape)),
            trainable=trainable,
            use_resource=self.program.variables == "resource",
        )

    def _inputs(self):
        dtype, self.seen = self.dtype, []
        if self.program.data == "fed":
            self.x = tf1.placeholder(dtype, [None, COLUMNS], name="x")
            self.ids = tf1.placeholder(tf.int32, [None], name="ids")
            self.y = tf1.placeholder(dtype, [None], name="y")
            return
        batch = self.batch(0, ELEMENTS * ELEMENT_ROWS)
        # The length must be unknown: a mean of gradients of rows may have more of them.
        data = tf.data.Dataset.from_tensor_slices(batch).batch(ELEMENT_ROWS)
        self.iterator = tf1.data.make_initializable_iterator(data)
        self.x, self.ids, self.y = self.iterator.get_next()
        # Stores the rows that a learner received, for the reference to use the same.
        for name, tensor in (("x", self.x), ("ids", self.ids), ("y", self.y)):
            shape = [ELEMENT_ROWS, *tensor.shape[1:]]
            variable = self._variable(f"seen_{name}", shape, trainable=False, value=0)
            self.seen.append(tf1.assign(variable, tf.cast(tensor, dtype)))

    def _model_variables(self):
        width = COLUMNS + (2 if self.program.inputs == "sparse" else 0)
        self.first = self._variable("first", [width, HIDDEN])
        # Normalisation cancels a bias: its gradient would be nothing but rounding.
        if self.program.norm == "none":
            self.bias = self._variable("bias", [HIDDEN])
        self.last = self._variable("last", [HIDDEN])
        if self.program.inputs == "sparse":
            self.table = self._variable("table", [IDS, 2])
        if self.program.flow.startswith("while"):
            self.shift = self._variable("shift", [HIDDEN])
        if self.program.norm != "none":
            self.scale = self._variable("scale", [HIDDEN], value=1)
            self.offset = self._variable("offset", [HIDDEN], value=0)
            self.mean = self._variable("mean", [HIDDEN], trainable=False, value=0)
            self.variance = self._variable("variance", [HIDDEN], trainable=False, value=1)

    def _forward(self, training):
        program = self.program
        # A NaN fails the task before anything is changed.
        x = tf.debugging.check_numerics(self.x, "x is not a number")
        if program.inputs == "sparse":
            x = tf.concat([x, tf.gather(self.table, self.ids)], 1)
        hidden = tf.matmul(x, self.first)
        if program.norm == "none":
            hidden += self.bias
        else:
            hidden = self._normalised(hidden, training)
        hidden = self._through_flow(tf.tanh(hidden))
        if program.dropout:
            hidden = tf1.nn.dropout(hidden, rate=0.25, seed=5)
        rows = tf.linalg.matvec(hidden, self.last, name="rows" if training else "rows_read")
        return rows, self._loss_of(rows)

    def _loss_of(self, rows):
        errors = tf.square(rows - self.y)
        loss = tf.reduce_mean(errors)
        if self.program.loss == "mean_l2":
            loss += 0.05 * (tf.nn.l2_loss(self.first) + tf.nn.l2_loss(self.last))
        return loss

    def _normalised(self, hidden, training):
        if not training:
            mean, variance = self.mean, self.variance
        elif self.program.norm == "fused":
            image, mean, variance = tf1.nn.fused_batch_norm(
                hidden[:, None, None, :], self.scale, self.offset, is_training=True
            )
            hidden = image[:, 0, 0, :]
        else:
            mean, variance = tf.nn.moments(hidden, [0])
        if training:
            for moving, now in ((self.mean, mean), (self.variance, variance)):
                update = tf1.assign_sub(moving, 0.25 * (moving - now))
                tf1.add_to_collection(tf1.GraphKeys.UPDATE_OPS, update)
            if self.program.norm == "fused":
                return hidden
        return tf.nn.batch_normalization(hidden, mean, variance, self.offset, self.scale, 1e-3)

    def _through_flow(self, hidden):
        if self.program.flow.startswith("cond"):
            positive = tf.reduce_mean(self.x) > 0
            return tf1.cond(positive, lambda: 0.5 * hidden, lambda: tf.square(hidden))
        if self.program.flow.startswith("while"):
            _, hidden = tf1.while_loop(
                lambda i, h: i < 3,
                lambda i, h: (i + 1, tf.tanh(0.8 * h + self.shift)),
                [0, hidden],
            )
        return hidden

    def _train_op(self, name, loss, variables):
        before = [*tf1.get_collection(tf1.GraphKeys.UPDATE_OPS), *self.seen]
        existing = {v.op.name for v in tf1.global_variables()}
        if self._optimiser is None:
            gradients = [tf.convert_to_tensor(g) for g in tf.gradients(loss, variables)]
            with tf.control_dependencies(before + gradients):
                update = self._update_by_hand(name, variables, gradients)
        else:
            # Not under the control dependencies: there, TensorFlow's own session omits the updates
            # behind a while_loop over reference variables.
            pairs = self._optimiser.compute_gradients(loss, variables)
            with tf.control_dependencies(before):
                update = self._optimiser.apply_gradients(pairs, self.step, name=name)
            gradients = [gradient for gradient, _ in pairs]
        trained = [v.op.name for v in variables]
        untrained = {v.op.name for v in tf1.global_variables()} - {
            v.op.name for v in tf1.trainable_variables()
        }
        slots_of_others = {
            n
            for n in untrained & existing
            for v in tf1.trainable_variables()
            if v.op.name not in trained and n.startswith(v.op.name + "/")
        }
        written = trained + sorted(untrained - slots_of_others)
        self.ops[name] = TrainOp(update, trained, written, gradients)

    def _update_by_hand(self, name, variables, gradients):
        updates = []
        for variable, change in zip(variables, gradients):
            if self.program.optimiser == "hand_momentum":
                slot = self._slot_by_hand(variable)
                change = 0.875 * slot + change
                updates.append(tf1.assign(slot, change))
            updates.append(tf1.assign_sub(variable, self.rate * change))
        with tf.control_dependencies(updates):
            return tf.group(tf1.assign_add(self.step, 1), name=name)

    def _slot_by_hand(self, variable):
        with tf1.variable_scope(tf1.get_variable_scope(), reuse=tf1.AUTO_REUSE):
            shape = variable.shape.as_list()
            return self._variable(f"{variable.op.name}/velocity", shape, False, value=0)

    # ----------------------------------------------------------------- added between runs

    def extend(self):
        """Adds ops and a variable: `ops["late"]` trains it and the last layer."""
        with self._building():
            before = set(tf1.global_variables())
            late = self._variable("late", [HIDDEN], value=0.25)
            loss = self.loss + tf.reduce_mean(tf.square(self.rows * tf.reduce_sum(late) - self.y))
            self._train_op("late", loss, [self.last, late])
            new = [v for v in tf1.global_variables() if v not in before]
            self.late_init = tf1.variables_initializer(new)
            self.saver = tf1.train.Saver()
        return self.late_init

    def add_undivided(self):
        """Adds `ops["undivided"]`, which is fed a value with a number of rows of its own."""
        with self._building():
            self.other = tf1.placeholder(self.dtype, [None], name="other")
            loss = self.loss + 0.1 * tf.reduce_mean(self.other) * tf.reduce_sum(self.last)
            self._train_op("undivided", loss, self._model)

    def adding_one_to(self, name):
        """Returns an op that adds one to a variable: a write."""
        if name not in self._additions:
            variable = self.variables[name]
            one = np.ones(variable.shape.as_list(), variable.dtype.base_dtype.as_numpy_dtype)
            with self.graph.as_default():
                self._additions[name] = tf1.assign_add(variable, one)
        return self._additions[name]

    # --------------------------------------------------------------------- its feeds

    @property
    def is_as_built(self):
        """Returns whether nothing has been added since."""
        return list(self.ops) == ["train"] and not self._additions

    @property
    def noises(self):
        """Returns dropout's draws: first in training, then (if that differs) in evaluation."""
        return [op.outputs[0] for op in self.graph.get_operations() if op.type == "RandomUniform"]

    @property
    def variables(self):
        """Returns all variables, by name."""
        with self.graph.as_default():
            return {v.op.name: v for v in tf1.global_variables()}

    @property
    def trainable(self):
        """Returns the names of the trainable variables."""
        with self.graph.as_default():
            return {v.op.name for v in tf1.trainable_variables()}

    def batch(self, seed, rows):
        """Returns x, ids and y."""
        random = np.random.default_rng(seed)
        x = random.standard_normal((rows, COLUMNS))
        ids = random.integers(0, IDS, rows).astype(np.int32)
        y = np.tanh(x.sum(1)) + 0.5 * (ids % 2) + 0.1 * random.standard_normal(rows)
        return self._array(x), ids, self._array(y)

    def feeds(self, batch, rate=None):
        """Returns the feed dict of rows, with a learning rate."""
        feeds = {self.x: batch[0], self.y: batch[2]}
        if self.program.inputs == "sparse":
            feeds[self.ids] = batch[1]
        return feeds if rate is None else feeds | {self.rate: self._array(rate)}
