"""DDPG: actor and critic with trainable target networks that follow by soft updates."""

import numpy as np
import tensorflow as tf

from tests.programs._harness import Outcome, Quality
from tests.programs._layers import dense

tf1 = tf.compat.v1

QUALITY = Quality("mean reward", higher_is_better=True, tolerance=0.05)


def train(sessions, seed, directory):
    random = np.random.RandomState(seed)
    state = tf1.placeholder(tf.float32, [None, 1])
    action = tf1.placeholder(tf.float32, [None, 1])
    reward = tf1.placeholder(tf.float32, [None, 1])
    next_state = tf1.placeholder(tf.float32, [None, 1])

    def actor(s, scope):
        with tf1.variable_scope(scope, reuse=tf1.AUTO_REUSE):
            return dense(s, 1, "policy", tf.tanh)

    def critic(s, a, scope):
        with tf1.variable_scope(scope, reuse=tf1.AUTO_REUSE):
            hidden = dense(tf.concat([s, a, s * a, a * a, s * s], 1), 8, "hidden", tf.nn.elu)
            return dense(hidden, 1, "q")

    policy = actor(state, "online/actor")
    q = critic(state, action, "online/critic")
    q_of_policy = critic(state, policy, "online/critic")
    next_q = critic(next_state, actor(next_state, "target/actor"), "target/critic")
    wanted = tf.stop_gradient(reward + 0.5 * next_q)

    def variables(scope):
        return tf1.get_collection(tf1.GraphKeys.TRAINABLE_VARIABLES, scope)

    critic_train = tf1.train.AdamOptimizer(0.01).minimize(
        tf.reduce_mean(tf.square(q - wanted)), var_list=variables("online/critic")
    )
    actor_train = tf1.train.AdamOptimizer(0.005).minimize(
        -tf.reduce_mean(q_of_policy), var_list=variables("online/actor")
    )
    pairs = list(zip(variables("target"), variables("online")))
    copy = [t.assign(o) for t, o in pairs]
    follow = [t.assign(0.05 * o + 0.95 * t) for t, o in pairs]

    memory = []
    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        sess.run(copy)
        now = random.uniform(-1, 1)
        for step in range(400):
            chosen = sess.run(policy, {state: [[now]]})[0, 0]
            chosen = np.clip(chosen + 0.3 * random.randn(), -1, 1)
            then = random.uniform(-1, 1)
            memory.append((now, chosen, -((chosen - 0.5 * now) ** 2), then))
            now = then
            if step >= 32:
                batch = np.array(memory)[random.randint(len(memory), size=32)]
                feed = dict(zip([state, action, reward, next_state], np.split(batch, 4, 1)))
                for train_op in (critic_train, actor_train, follow):
                    sess.run(train_op, feed_dict=feed)
        states = np.linspace(-1, 1, 21)[:, None]
        actions, values = sess.run([policy, q_of_policy], {state: states})
    rewards = -((actions - 0.5 * states) ** 2)
    return Outcome(float(rewards.mean()), {"actions": actions, "values": values})
