"""Q-learning with replay and a target network copied every few steps."""

import numpy as np
import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import dense

tf1 = tf.compat.v1

QUALITY = Quality("mean return", higher_is_better=True, tolerance=0.3)


def train(sessions, seed, directory):
    random = np.random.RandomState(seed)
    world = _data.Corridor(seed)
    state = tf1.placeholder(tf.float32, [None, world.length])
    action = tf1.placeholder(tf.int32, [None])
    reward = tf1.placeholder(tf.float32, [None])
    next_state = tf1.placeholder(tf.float32, [None, world.length])
    ended = tf1.placeholder(tf.float32, [None])
    with tf1.variable_scope("online"):
        q = dense(state, 2, "q")
    with tf1.variable_scope("target"):
        next_q = dense(next_state, 2, "q")
    online = tf1.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES, "online")
    target = tf1.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES, "target")
    copy = tf.group(*[tf1.assign(t, o) for t, o in zip(target, online)])
    wanted = reward + 0.9 * (1 - ended) * tf.reduce_max(next_q, 1)
    taken = tf.reduce_sum(q * tf.one_hot(action, 2), 1)
    loss = tf.reduce_mean(tf.square(tf.stop_gradient(wanted) - taken))
    train_op = tf1.train.RMSPropOptimizer(0.01).minimize(loss, var_list=online)

    memory, returns, last, step = [], [], 0.0, 0
    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        sess.run(copy)
        for episode in range(100):
            now, done, total = world.reset(), False, 0.0
            while not done:
                if random.rand() < max(0.05, 1 - episode / 50):
                    a = random.randint(2)
                else:
                    a = int(np.argmax(sess.run(q, {state: [now]})[0]))
                then, r, done = world.step(a)
                memory.append((now, a, r, then, float(done)))
                now, total, step = then, total + r, step + 1
                if len(memory) >= 32 and step % 2 == 0:
                    picked = [memory[i] for i in random.randint(len(memory), size=32)]
                    values = [np.array(column) for column in zip(*picked)]
                    feed = dict(zip([state, action, reward, next_state, ended], values))
                    _, last = sess.run([train_op, loss], feed_dict=feed)
                if step % 25 == 0:
                    sess.run(copy)
            returns.append(total)
        values = sess.run(q, {state: np.eye(world.length)})
    return Outcome(float(np.mean(returns[-30:])), {"last loss": last, "q": values})
