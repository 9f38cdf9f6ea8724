// Everything a session needs to go on later, bit for bit, from where it is: saving it
// (Trainer::SaveState) and setting it (Trainer::LoadState). This file has what the
// parts of a session say about themselves.
//
// A state holds the value of every variable of the graph under the variable's own name,
// as Saver writes it (trained variables: the central model), and beside that
//
//   _tensorbow/format, settings, counters     what it is; see session_state.cc
//   _tensorbow/learner/<j>/variable/<name>    learner j's replica
//   _tensorbow/learner/<j>/random_*           its streams of random numbers
//   _tensorbow/z/<name>, z_prev/<name>        flat, in the accumulation type
//   _tensorbow/average/<name>                 the moving average of z, likewise
//   _tensorbow/run*                           each learning run's progress
//
// No node can have such a name.
#ifndef TENSORBOW_CC_SESSION_SESSION_STATE_H_
#define TENSORBOW_CC_SESSION_SESSION_STATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tensorflow/core/framework/tensor.h"

namespace tensorbow {

// What a program keeps from run to run.
struct RunProgress {
  int64_t iterations = 0;          // of its trained set
  std::vector<double> last_rates;  // learning rates of the last run
  bool rate_dropped = false;       // within the last run
  bool restart_pending = false;    // requested, and it has not run since
};

// Learners' side of a replicated variable.
struct ReplicaState {
  std::string name;
  bool trained = false;
  bool generator = false;
  // By learner; empty if the replicas have to start from the central value.
  std::vector<tensorflow::Tensor> replicas;
  // Flat, in the accumulation type; uninitialised tensors if there is no central model
  // of the variable.
  tensorflow::Tensor z, z_prev;
  tensorflow::Tensor average;  // uninitialised if none is kept
  int64_t model_iterations = 0;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SESSION_SESSION_STATE_H_
