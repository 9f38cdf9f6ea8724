"""Actor and critic: two optimisers over shared layers in one run, advantage inside."""

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
    target = tf1.placeholder(tf.float32, [None])
    with tf1.variable_scope("actor"):
        logits = dense(observation, 2, "logits")
    with tf1.variable_scope("critic"):
        value = tf.squeeze(dense(observation, 1, "value"), 1)
    advantage = tf.stop_gradient(target - value)
    surprise = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=action, logits=logits)
    entropy = tf.reduce_mean(tf.nn.softmax(logits) * tf.nn.log_softmax(logits))
    actor_loss = tf.reduce_mean(surprise * advantage) + 0.01 * entropy
    critic_loss = tf.reduce_mean(tf.square(target - value))
    actor_vars = tf1.get_collection(tf1.GraphKeys.TRAINABLE_VARIABLES, "actor")
    critic_vars = tf1.get_collection(tf1.GraphKeys.TRAINABLE_VARIABLES, "critic")
    train_actor = tf1.train.AdamOptimizer(0.03).minimize(actor_loss, var_list=actor_vars)
    train_critic = tf1.train.AdamOptimizer(0.05).minimize(critic_loss, var_list=critic_vars)
    policy = tf.nn.softmax(logits)

    returns = []
    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        now, total = world.reset(), 0.0
        while len(returns) < 150:
            seen, chosen, rewards, done = [], [], [], False
            while not done and len(seen) < 8:  # up to eight steps at a time
                p = sess.run(policy, {observation: [now]})[0]
                seen.append(now)
                chosen.append(int(random.rand() < p[1]))
                now, reward, done = world.step(chosen[-1])
                rewards.append(reward)
            total += sum(rewards)
            running = 0.0 if done else sess.run(value, {observation: [now]})[0]
            targets = []
            for reward in reversed(rewards):
                running = reward + 0.95 * running
                targets.insert(0, running)
            feed = {observation: seen, action: chosen, target: targets}
            losses = sess.run([train_actor, train_critic, actor_loss, critic_loss], feed)[2:]
            if done:
                returns.append(total)
                now, total = world.reset(), 0.0
        values = sess.run(value, {observation: np.eye(world.length)})
    return Outcome(float(np.mean(returns[-40:])), {"losses": losses, "values": values})
