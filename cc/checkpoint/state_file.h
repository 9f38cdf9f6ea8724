// Named tensors on disk in TensorFlow's checkpoint format, replaced as a whole.
//
//   <path>                                        says which bundle is the current one
//                                                 (in the words of TensorFlow's
//                                                 "checkpoint" files)
//   <path>.tensorbow-<n>.index                    the bundle: what it holds,
//   <path>.tensorbow-<n>.data-00000-of-00001      and the tensors
//
// A new bundle is written beside the current one and is on the disk before <path> is
// replaced by renaming. So at whatever moment the process or the machine dies, <path>
// names a whole bundle, the old or the new one; what is left over is removed by the
// next writer. Where several hosts have a part each, the bundle before stays until the
// next one is begun: who dies may leave some hosts one save behind the others. Local
// file systems only; one writer of a path at a time. Thread-compatible.
#ifndef TENSORBOW_CC_CHECKPOINT_STATE_FILE_H_
#define TENSORBOW_CC_CHECKPOINT_STATE_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/util/tensor_bundle/tensor_bundle.h"

namespace tensorbow {

class StateWriter {
 public:
  // Begins a new bundle for `path`; its directory is made if need be. An existing file
  // that is not a saved state is never touched. Its number follows that of the current
  // one and `after`.
  static absl::Status Open(const std::string& path, int64_t after,
                           std::unique_ptr<StateWriter>* writer);
  // Removes what has been written, unless it was committed.
  ~StateWriter();

  // Each key once.
  absl::Status Add(absl::string_view key, const tensorflow::Tensor& value);
  // The new bundle is on the disk, if it is not committed.
  absl::Status Finish();
  // Makes the new bundle the current one. Nothing may be called afterwards.
  // `keeps_last`: the one that was current stays.
  absl::Status Commit(bool keeps_last);

 private:
  StateWriter(std::string path, std::string bundle);

  const std::string path_;
  const std::string bundle_;  // its prefix
  std::unique_ptr<tensorflow::BundleWriter> writer_;
  bool finished_ = false;
  bool committed_ = false;
};

class StateReader {
 public:
  // NotFound if nothing was ever saved as `path`.
  static absl::Status Open(const std::string& path,
                           std::unique_ptr<StateReader>* reader);
  // The number of the current bundle, 0 if there is none.
  static absl::StatusOr<int64_t> Current(const std::string& path);
  // Makes the bundle of this number, which has been kept, the current one again.
  static absl::Status GoBackTo(const std::string& path, int64_t number);

  bool Contains(absl::string_view key) { return reader_->Contains(key); }
  // DataLoss if the file is damaged.
  absl::Status Read(absl::string_view key, tensorflow::Tensor* value);

 private:
  StateReader() = default;

  std::unique_ptr<tensorflow::BundleReader> reader_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_CHECKPOINT_STATE_FILE_H_
