"""REINFORCE: episodes of different lengths, discounted rewards fed with them."""

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
    observation = tf1.placeholder(tf.float32, [None, world.length])
    action = tf1.placeholder(tf.int32, [None])
    advantage = tf1.placeholder(tf.float32, [None])
    logits = dense(dense(observation, 16, "hidden", tf.tanh), 2, "logits")
    probabilities = tf.nn.softmax(logits)
    surprise = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=action, logits=logits)
    loss = tf.reduce_mean(surprise * advantage)
    train_op = tf1.train.AdamOptimizer(0.02).minimize(loss)

    returns = []
    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        for _ in range(150):
            seen, chosen, rewards, done = [], [], [], False
            now = world.reset()
            while not done:
                p = sess.run(probabilities, {observation: now[None]})[0]
                seen.append(now)
                chosen.append(int(random.rand() < p[1]))
                now, reward, done = world.step(chosen[-1])
                rewards.append(reward)
            discounted = np.zeros(len(rewards))
            running = 0.0
            for t in reversed(range(len(rewards))):
                running = rewards[t] + 0.95 * running
                discounted[t] = running
            feed = {observation: seen, action: chosen, advantage: discounted}
            _, last = sess.run([train_op, loss], feed_dict=feed)
            returns.append(sum(rewards))
        policy = sess.run(probabilities, {observation: np.eye(world.length)})
    return Outcome(float(np.mean(returns[-40:])), {"last loss": last, "policy": policy})
