#include "cc/checkpoint/state_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tensorflow/core/lib/io/path.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/util/tensor_bundle/naming.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

constexpr absl::string_view kMark = ".tensorbow-";
constexpr absl::string_view kPointer = "model_checkpoint_path: \"";

std::string DirectoryOf(const std::string& path) {
  const std::string directory(tf::io::Dirname(path));
  return directory.empty() ? "." : directory;
}

absl::Status SystemError(absl::string_view what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat(what, " '", path, "'"));
}

// Waits until the file (or the directory's entries) is on the disk.
absl::Status Flush(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return SystemError("Cannot open", path);
  const absl::Cleanup closing = [file] { close(file); };
  if (fsync(file) != 0) return SystemError("Cannot flush to the disk:", path);
  return absl::OkStatus();
}

absl::Status WriteFlushed(const std::string& path, const std::string& text) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return SystemError("Cannot open", path);
  const absl::Cleanup closing = [file] { close(file); };
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = write(file, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SystemError("Cannot write", path);
    done += written;
  }
  if (fsync(file) != 0) return SystemError("Cannot flush to the disk:", path);
  return absl::OkStatus();
}

// The number in "<base>.tensorbow-<number><rest>", or -1 if `name` is not of that kind.
int64_t NumberOf(absl::string_view base, absl::string_view name, bool bundle_file) {
  if (!absl::ConsumePrefix(&name, base) || !absl::ConsumePrefix(&name, kMark)) {
    return -1;
  }
  const absl::string_view digits = name.substr(0, name.find('.'));
  int64_t number = 0;
  if (!absl::SimpleAtoi(digits, &number) || number <= 0) return -1;
  name.remove_prefix(digits.size());
  const bool file =
      absl::StartsWith(name, ".index") || absl::StartsWith(name, ".data-");
  return file == bundle_file && (file || name.empty()) ? number : -1;
}

std::string NewPointerOf(const std::string& path) {
  return absl::StrCat(path, kMark, "new");
}

// Removes the bundles of `path` but number `current` and `last`, finished or not.
void RemoveOtherBundles(const std::string& path, int64_t current, int64_t last = 0) {
  const std::string directory = DirectoryOf(path);
  std::vector<std::string> names;
  tf::Env::Default()->GetChildren(directory, &names).IgnoreError();
  for (const std::string& name : names) {
    const int64_t number = NumberOf(tf::io::Basename(path), name, /*bundle_file=*/true);
    if (number < 0 || number == current || number == last) continue;
    unlink(tf::io::JoinPath(directory, name).c_str());
  }
  unlink(NewPointerOf(path).c_str());
}

// The number of the current bundle, 0 if there is none.
absl::Status ReadPointer(const std::string& path, int64_t* number) {
  *number = 0;
  if (absl::StrContains(path, "://")) {
    return absl::UnimplementedError(absl::StrCat(
        "A state is saved in a local file, where it can be replaced atomically; got '",
        path, "'; save it locally and copy it from there"));
  }
  struct stat about;
  if (stat(path.c_str(), &about) != 0) {
    if (errno == ENOENT) return absl::OkStatus();
    return SystemError("Cannot look at", path);
  }
  const absl::Status foreign = absl::FailedPreconditionError(absl::StrCat(
      "'", path,
      "' exists and is not a state saved by save_state; wanted a path of its ",
      "own, which will be a small file that names the files beside it"));
  if (!S_ISREG(about.st_mode) || about.st_size > 64 * 1024) return foreign;
  std::string text;
  TF_RETURN_IF_ERROR(tf::ReadFileToString(tf::Env::Default(), path, &text));
  absl::string_view name = text;
  std::string unescaped;
  if (!absl::ConsumePrefix(&name, kPointer) || !absl::ConsumeSuffix(&name, "\"\n") ||
      !absl::CUnescape(name, &unescaped)) {
    return foreign;
  }
  const size_t mark = unescaped.rfind(kMark);
  if (mark == std::string::npos) return foreign;
  *number = NumberOf(unescaped.substr(0, mark), unescaped, /*bundle_file=*/false);
  return *number > 0 ? absl::OkStatus() : foreign;
}

std::string BundleOf(const std::string& path, int64_t number) {
  return absl::StrCat(path, kMark, number);
}

// Has `path` name the bundle, if it is on the disk.
absl::Status PointTo(const std::string& path, const std::string& bundle) {
  const std::string name(tf::io::Basename(bundle));
  const std::string pointer = NewPointerOf(path);
  TF_RETURN_IF_ERROR(
      WriteFlushed(pointer, absl::StrCat(kPointer, absl::CEscape(name), "\"\n")));
  if (rename(pointer.c_str(), path.c_str()) != 0) {
    return SystemError("Cannot rename to", path);
  }
  return absl::OkStatus();
}

}  // namespace

StateWriter::StateWriter(std::string path, std::string bundle)
    : path_(std::move(path)),
      bundle_(std::move(bundle)),
      writer_(std::make_unique<tf::BundleWriter>(tf::Env::Default(), bundle_)) {}

absl::Status StateWriter::Open(const std::string& path, int64_t after,
                               std::unique_ptr<StateWriter>* writer) {
  int64_t current = 0;
  TF_RETURN_IF_ERROR(ReadPointer(path, &current));
  TF_RETURN_IF_ERROR(tf::Env::Default()->RecursivelyCreateDir(DirectoryOf(path)));
  RemoveOtherBundles(path, current);  // left over from a crash
  writer->reset(new StateWriter(path, BundleOf(path, std::max(current, after) + 1)));
  return (*writer)->writer_->status();
}

StateWriter::~StateWriter() {
  if (committed_) return;
  writer_.reset();
  int64_t current = 0;
  if (ReadPointer(path_, &current).ok()) RemoveOtherBundles(path_, current);
}

absl::Status StateWriter::Add(absl::string_view key, const tf::Tensor& value) {
  return writer_->Add(key, value);
}

absl::Status StateWriter::Finish() {
  if (std::exchange(finished_, true)) return absl::OkStatus();
  TF_RETURN_IF_ERROR(writer_->Finish());
  TF_RETURN_IF_ERROR(Flush(tf::DataFilename(bundle_, 0, 1)));
  TF_RETURN_IF_ERROR(Flush(tf::MetaFilename(bundle_)));
  return Flush(DirectoryOf(path_));
}

absl::Status StateWriter::Commit(bool keeps_last) {
  TF_RETURN_IF_ERROR(Finish());
  int64_t last = 0, current = 0;
  TF_RETURN_IF_ERROR(ReadPointer(path_, &last));
  TF_RETURN_IF_ERROR(PointTo(path_, bundle_));
  committed_ = true;
  TF_RETURN_IF_ERROR(Flush(DirectoryOf(path_)));
  TF_RETURN_IF_ERROR(ReadPointer(path_, &current));
  RemoveOtherBundles(path_, current, keeps_last ? last : 0);
  return absl::OkStatus();
}

absl::StatusOr<int64_t> StateReader::Current(const std::string& path) {
  int64_t number = 0;
  TF_RETURN_IF_ERROR(ReadPointer(path, &number));
  return number;
}

absl::Status StateReader::GoBackTo(const std::string& path, int64_t number) {
  int64_t current = 0;
  TF_RETURN_IF_ERROR(ReadPointer(path, &current));
  if (current == number) return absl::OkStatus();
  const std::string bundle = BundleOf(path, number);
  struct stat about;
  if (stat(tf::MetaFilename(bundle).c_str(), &about) != 0) {
    return SystemError("The save before the last one is gone:", bundle);
  }
  TF_RETURN_IF_ERROR(PointTo(path, bundle));
  return Flush(DirectoryOf(path));
}

absl::Status StateReader::Open(const std::string& path,
                               std::unique_ptr<StateReader>* reader) {
  int64_t number = 0;
  TF_RETURN_IF_ERROR(ReadPointer(path, &number));
  if (number == 0) {
    return absl::NotFoundError(absl::StrCat(
        "There is no saved state '", path,
        "'; wanted a path that save_state has been called with. In a first run, "
        "run the initialisers instead"));
  }
  auto made = std::unique_ptr<StateReader>(new StateReader);
  made->reader_ =
      std::make_unique<tf::BundleReader>(tf::Env::Default(), BundleOf(path, number));
  if (!made->reader_->status().ok()) {
    return absl::DataLossError(
        absl::StrCat("The files of the saved state '", path,
                     "' are missing or damaged: ", made->reader_->status().message()));
  }
  *reader = std::move(made);
  return absl::OkStatus();
}

absl::Status StateReader::Read(absl::string_view key, tf::Tensor* value) {
  tf::DataType dtype;
  tf::TensorShape shape;
  absl::Status status = reader_->LookupDtypeAndShape(key, &dtype, &shape);
  if (status.ok()) {
    *value = tf::Tensor(dtype, shape);
    status = reader_->Lookup(key, value);
  }
  if (status.ok()) return status;
  return absl::DataLossError(
      absl::StrCat("Cannot read '", key, "' of the saved state: ", status.message()));
}

}  // namespace tensorbow
