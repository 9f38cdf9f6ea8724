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
// next writer. Local file systems only; one writer of a path at a time.
// Thread-compatible.
#ifndef TENSORBOW_CC_TRAINING_STATE_FILE_H_
#define TENSORBOW_CC_TRAINING_STATE_FILE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/util/tensor_bundle/tensor_bundle.h"

namespace tensorbow {

class StateWriter {
 public:
  // Begins a new bundle for `path`; its directory is made if need be. An existing file
  // that is not a saved state is never touched.
  static absl::Status Open(const std::string& path,
                           std::unique_ptr<StateWriter>* writer);
  // Removes what has been written, unless it was committed.
  ~StateWriter();

  // Each key once.
  absl::Status Add(absl::string_view key, const tensorflow::Tensor& value);
  // Makes the new bundle the current one. Nothing may be called afterwards.
  absl::Status Commit();

 private:
  StateWriter(std::string path, std::string bundle);

  const std::string path_;
  const std::string bundle_;  // its prefix
  std::unique_ptr<tensorflow::BundleWriter> writer_;
  bool committed_ = false;
};

class StateReader {
 public:
  // NotFound if nothing was ever saved as `path`.
  static absl::Status Open(const std::string& path,
                           std::unique_ptr<StateReader>* reader);

  bool Contains(absl::string_view key) { return reader_->Contains(key); }
  // DataLoss if the file is damaged.
  absl::Status Read(absl::string_view key, tensorflow::Tensor* value);

 private:
  StateReader() = default;

  std::unique_ptr<tensorflow::BundleReader> reader_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_TRAINING_STATE_FILE_H_
