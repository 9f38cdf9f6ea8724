"""Sessions with learners for code that has its sessions made.

`tf.compat.v1.train.MonitoredSession` gets its session from a session creator, a
`Supervisor` from a session manager. Both initialise the model or restore the newest
checkpoint; the classes here do the same in a `TensorBowSession`.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorbow.options import Options
from tensorbow.session import TensorBowSession


class SessionManager(tf.compat.v1.train.SessionManager):
    """A `tf.compat.v1.train.SessionManager` whose sessions have learners.

    Args:
      args, kwargs: as for TensorFlow's class.
      options: a `tensorbow.Options`; None for the defaults.

    Example:
      >>> manager = tensorbow.SessionManager(graph=tf.compat.v1.get_default_graph())
      >>> supervisor = tf.compat.v1.train.Supervisor(session_manager=manager)
    """

    def __init__(self, *args: Any, options: Options | None = None, **kwargs: Any) -> None:
        """Takes the arguments of TensorFlow's, and `options`."""
        super().__init__(*args, **kwargs)
        self._options = options

    def _restore_checkpoint(
        self,
        master: str,
        saver: Any = None,
        checkpoint_dir: str | None = None,
        checkpoint_filename_with_path: str | None = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: int = 7200,
        config: Any = None,
    ) -> tuple[TensorBowSession, bool]:
        """Makes the session; restores it if there is a checkpoint."""
        if wait_for_checkpoint:
            raise ValueError(
                "SessionManager: wait_for_checkpoint is for the workers of a cluster; a "
                "session with learners trains by itself, got wait_for_checkpoint=True"
            )
        if checkpoint_dir and checkpoint_filename_with_path:
            raise ValueError(
                "SessionManager: got checkpoint_dir and checkpoint_filename_with_path, wanted "
                "one of them"
            )
        self._target = master
        session = TensorBowSession(master, self._graph, config, self._options)
        path, kept = checkpoint_filename_with_path, None
        if checkpoint_dir:
            state = tf.compat.v1.train.get_checkpoint_state(checkpoint_dir)
            if state and state.model_checkpoint_path:
                path, kept = state.model_checkpoint_path, state.all_model_checkpoint_paths
        if not saver or not path:
            return session, False
        saver.restore(session, path)
        if kept is not None:
            saver.recover_last_checkpoints(kept)
        return session, True


class SessionCreator(tf.compat.v1.train.ChiefSessionCreator):
    """A `tf.compat.v1.train.ChiefSessionCreator` whose sessions have learners.

    Args:
      args, kwargs: as for TensorFlow's class: scaffold, master, config, checkpoint_dir,
        checkpoint_filename_with_path.
      options: a `tensorbow.Options`; None for the defaults.

    Example:
      >>> creator = tensorbow.SessionCreator(checkpoint_dir="/tmp/model")
      >>> with tf.compat.v1.train.MonitoredSession(creator, hooks=hooks) as session:
      ...     while not session.should_stop():
      ...         session.run(train_op)
    """

    def __init__(self, *args: Any, options: Options | None = None, **kwargs: Any) -> None:
        """Takes the arguments of TensorFlow's, and `options`."""
        super().__init__(*args, **kwargs)
        self._options = options
        self._session_manager: SessionManager | None = None

    def _get_session_manager(self) -> SessionManager:
        if self._session_manager is None:
            self._session_manager = SessionManager(
                local_init_op=self._scaffold.local_init_op,
                local_init_feed_dict=self._scaffold.local_init_feed_dict,
                ready_op=self._scaffold.ready_op,
                ready_for_local_init_op=self._scaffold.ready_for_local_init_op,
                graph=tf.compat.v1.get_default_graph(),
                options=self._options,
            )
        return self._session_manager
