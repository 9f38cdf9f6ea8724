// A learning run that a program repeats, between NumPy and the learners. Arrays go in
// and come out without TensorFlow's C API. Feeds are not copied as a whole: each
// learner copies its own rows if they are not aligned.
#ifndef TENSORBOW_CC_BINDINGS_PREPARED_RUN_H_
#define TENSORBOW_CC_BINDINGS_PREPARED_RUN_H_

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "cc/session/tensorbow_session.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"

namespace tensorbow {

// A run of a session. Called with the interpreter's lock held, by any thread.
class PreparedRun {
 public:
  // `session`: the number of the session. Types: those of the feeds in their order, and
  // NumPy's for the fetches. All of them are numbers or strings, not handles.
  PreparedRun(int64_t session,
              std::weak_ptr<const TensorBowSession::Signature> signature,
              std::vector<tensorflow::DataType> feed_types,
              std::vector<pybind11::dtype> fetch_types);

  // Executes the run: arrays of the feeds' types → arrays or NumPy scalars of the
  // fetches. Returns nullopt, without executing, if the session has dropped the run, or
  // a feed of strings has other elements. Strings are copied. `task_rows`: see
  // RunRequest.
  absl::Status Run(const std::vector<pybind11::array>& feeds,
                   std::vector<int64_t> task_rows,
                   std::optional<pybind11::list>* fetches);

  // Explains how such a run would be divided, as a dict; see prepared_run.cc. Returns
  // nullopt as Run() does.
  absl::Status Explain(const std::vector<pybind11::array>& feeds,
                       std::optional<pybind11::dict>* explanation);

  // Returns whether the last run left warnings with the session.
  bool has_warnings() const { return has_warnings_.load(std::memory_order_relaxed); }

 private:
  // Returns nullopt if a feed of strings has other elements.
  std::optional<std::vector<tensorflow::Tensor>> Feeds(
      const std::vector<pybind11::array>& arrays) const;

  const int64_t session_;
  // Owned by the session, since kernels must be deleted before the objects they use.
  const std::weak_ptr<const TensorBowSession::Signature> signature_;
  const std::vector<tensorflow::DataType> feed_types_;
  const std::vector<pybind11::dtype> fetch_types_;
  std::atomic<bool> has_warnings_{false};
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_BINDINGS_PREPARED_RUN_H_
