#include "cc/cluster/tensor_exchange.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cc/support/flush_denormals.h"
#include "tensorflow/core/framework/allocation_description.pb.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/threadpool.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// The largest vector exchanged as a whole: above, its transfer costs more than a second
// step.
constexpr int64_t kMostBytesAtOnce = 256 << 10;
// Smaller parts are added up by the thread that has received them.
constexpr int64_t kSmallBytes = 16 << 10;
constexpr int64_t kAlignedBytes = 64;

// sum[i] ← Σ_k values[k][i], k in order; `sum` may be one of them.
template <typename T>
void AddInOrder(const std::vector<const char*>& values, int64_t n, T* sum) {
  constexpr int64_t kBlock = 2048;
  T block[kBlock];
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t count = std::min(kBlock, n - begin);
    const T* const first = reinterpret_cast<const T*>(values[0]) + begin;
    std::copy(first, first + count, block);
    for (size_t k = 1; k < values.size(); ++k) {
      const T* const more = reinterpret_cast<const T*>(values[k]) + begin;
      for (int64_t i = 0; i < count; ++i) block[i] += more[i];
    }
    std::copy(block, block + count, sum + begin);
  }
}

// A part of a tensor, which reports when its last reference is gone.
class OfferedBuffer : public tf::TensorBuffer {
 public:
  OfferedBuffer(const tf::Tensor& whole, int64_t begin, int64_t size,
                std::function<void()> released)
      : TensorBuffer(const_cast<char*>(whole.tensor_data().data()) + begin),
        whole_(whole),
        size_(size),
        released_(std::move(released)) {}
  ~OfferedBuffer() override { released_(); }

  size_t size() const override { return size_; }
  tf::TensorBuffer* root_buffer() override { return this; }
  bool OwnsMemory() const override { return false; }
  void FillAllocationDescription(
      tf::AllocationDescription* description) const override {
    description->set_requested_bytes(static_cast<int64_t>(size_));
  }

 private:
  const tf::Tensor whole_;  // keeps the memory alive
  const size_t size_;
  const std::function<void()> released_;
};

}  // namespace

// A running sum on this host.
class TensorExchange::Transfer : public std::enable_shared_from_this<Transfer> {
 public:
  Transfer(std::shared_ptr<TensorExchange> exchange, std::string name,
           const tf::Tensor& values, Done done)
      : exchange_(std::move(exchange)),
        name_(std::move(name)),
        values_(values),
        size_(static_cast<int64_t>(values.TotalBytes())),
        at_once_(num_members() == 2 || size_ * (num_members() - 1) <= kMostBytesAtOnce),
        received_(num_members()),
        done_(std::move(done)),
        parts_left_(num_members() - 1) {}

  void Start() ABSL_LOCKS_EXCLUDED(mu_);
  // Ends the sum with this error, unless it has ended or failed before.
  void Fail(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Part {
    int64_t begin, size;  // bytes
  };

  int num_members() const { return static_cast<int>(exchange_->members_.size()); }
  int place() const { return exchange_->place_; }
  Part Whole() const { return {0, size_}; }
  // Returns the part that a member adds up for all.
  Part PartOf(int member) const;
  char* data(const Part& part) const {
    return const_cast<char*>(values_.tensor_data().data()) + part.begin;
  }

  absl::StatusOr<tf::Rendezvous::ParsedKey> Key(int from, int to,
                                                absl::string_view what) const;
  void Offer(const std::vector<int>& to, absl::string_view what, const Part& part)
      ABSL_LOCKS_EXCLUDED(mu_);
  using Take = void (Transfer::*)(int from, const tf::Tensor& tensor);
  void Ask(int from, absl::string_view what, const Part& part, Take take)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Record that an offer is released, and that a request has been answered or failed.
  void NoteReleased() ABSL_LOCKS_EXCLUDED(mu_);
  void NoteAnswered() ABSL_LOCKS_EXCLUDED(mu_);

  void Keep(int from, const tf::Tensor& tensor) ABSL_LOCKS_EXCLUDED(mu_);
  void Insert(int from, const tf::Tensor& tensor);
  // Adds the received values and this host's own.
  void AddUp(const Part& part);
  void AddUpWhole() ABSL_LOCKS_EXCLUDED(mu_);
  void AddUpOwnPart() ABSL_LOCKS_EXCLUDED(mu_);
  void Schedule(const Part& part, void (Transfer::*step)());

  // Ends the sum, or adds up, if nothing is left to wait for.
  void GoOn() ABSL_LOCKS_EXCLUDED(mu_);

  const std::shared_ptr<TensorExchange> exchange_;
  const std::string name_;
  const tf::Tensor values_;
  const int64_t size_;
  const bool at_once_;                // every host receives all vectors
  std::vector<tf::Tensor> received_;  // by member; read when all have arrived
  Done done_;

  absl::Mutex mu_;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  int asked_ ABSL_GUARDED_BY(mu_) = 1;    // unanswered requests; Start() counts as one
  int offered_ ABSL_GUARDED_BY(mu_) = 0;  // offers in use
  int parts_left_ ABSL_GUARDED_BY(mu_);   // parts still to be received
  bool adds_ ABSL_GUARDED_BY(mu_) = false;
  bool added_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
};

TensorExchange::Transfer::Part TensorExchange::Transfer::PartOf(int member) const {
  const int64_t units = (size_ + kAlignedBytes - 1) / kAlignedBytes;
  const auto begin = [&](int k) {
    return std::min(size_, units * k / num_members() * kAlignedBytes);
  };
  return {begin(member), begin(member + 1) - begin(member)};
}

void TensorExchange::Transfer::Start() {
  std::vector<int> others;
  for (int member = 0; member < num_members(); ++member) {
    if (member != place()) others.push_back(member);
  }
  if (at_once_) {
    Offer(others, "all", Whole());
    for (int other : others) Ask(other, "all", Whole(), &Transfer::Keep);
  } else {
    for (int other : others) {
      Offer({other}, "part", PartOf(other));
      Ask(other, "part", PartOf(place()), &Transfer::Keep);
      Ask(other, "sum", PartOf(other), &Transfer::Insert);
    }
  }
  NoteAnswered();
}

absl::StatusOr<tf::Rendezvous::ParsedKey> TensorExchange::Transfer::Key(
    int from, int to, absl::string_view what) const {
  const Member& sender = exchange_->members_[from];
  const std::string key = tf::Rendezvous::CreateKey(
      sender.device, sender.incarnation, exchange_->members_[to].device,
      absl::StrCat(name_, ":", what), tf::FrameAndIter(0, 0));
  tf::Rendezvous::ParsedKey parsed;
  TF_RETURN_IF_ERROR(tf::Rendezvous::ParseKey(key, &parsed));
  return parsed;
}

void TensorExchange::Transfer::Offer(const std::vector<int>& to, absl::string_view what,
                                     const Part& part) {
  {
    absl::MutexLock lock(&mu_);
    ++offered_;
  }
  const tf::Tensor tensor(
      values_.dtype(), tf::TensorShape({part.size / tf::DataTypeSize(values_.dtype())}),
      tf::core::RefCountPtr<tf::TensorBuffer>(
          new OfferedBuffer(values_, part.begin, part.size,
                            [self = shared_from_this()] { self->NoteReleased(); })));
  for (int member : to) {
    const auto key = Key(place(), member, what);
    absl::Status status = key.status();
    if (status.ok()) {
      status = exchange_->rendezvous_->Send(*key, {}, tensor, /*is_dead=*/false);
    }
    if (!status.ok()) exchange_->Abort(status);
  }
}

void TensorExchange::Transfer::Ask(int from, absl::string_view what, const Part& part,
                                   Take take) {
  {
    absl::MutexLock lock(&mu_);
    ++asked_;
  }
  const auto answer = [this, self = shared_from_this(), from, part, take](
                          absl::Status status, const tf::Tensor& tensor) {
    const int64_t size = static_cast<int64_t>(tensor.TotalBytes());
    if (status.ok() && (size != part.size || tensor.dtype() != values_.dtype())) {
      status = absl::InvalidArgumentError(absl::StrCat(
          exchange_->members_[from].device, " adds up another number of values: got ",
          size, " bytes, wanted ", part.size));
    }
    if (status.ok()) {
      (this->*take)(from, tensor);
    } else {
      exchange_->Abort(status);
    }
    NoteAnswered();
  };
  const auto key = Key(from, place(), what);
  if (!key.ok()) return answer(key.status(), tf::Tensor());
  exchange_->rendezvous_->RecvAsync(
      *key, {},
      [answer](const absl::Status& status, const tf::Rendezvous::Args&,
               const tf::Rendezvous::Args&, const tf::Tensor& tensor,
               bool) { answer(status, tensor); });
}

void TensorExchange::Transfer::NoteReleased() {
  {
    absl::MutexLock lock(&mu_);
    --offered_;
  }
  GoOn();
}

void TensorExchange::Transfer::NoteAnswered() {
  {
    absl::MutexLock lock(&mu_);
    --asked_;
  }
  GoOn();
}

void TensorExchange::Transfer::Fail(const absl::Status& why) {
  {
    absl::MutexLock lock(&mu_);
    status_.Update(why);
  }
  GoOn();
}

void TensorExchange::Transfer::Keep(int from, const tf::Tensor& tensor) {
  {
    absl::MutexLock lock(&mu_);
    received_[from] = tensor;
    if (--parts_left_ > 0 || at_once_) return;
  }
  Schedule(PartOf(place()), &Transfer::AddUpOwnPart);
}

// The member has received this host's values of its part, which may be overwritten.
void TensorExchange::Transfer::Insert(int from, const tf::Tensor& tensor) {
  const absl::string_view values = tensor.tensor_data();
  std::memcpy(data(PartOf(from)), values.data(), values.size());
}

void TensorExchange::Transfer::AddUp(const Part& part) {
  std::vector<const char*> all;
  for (int member = 0; member < num_members(); ++member) {
    all.push_back(member == place() ? data(part)
                                    : received_[member].tensor_data().data());
  }
  const int64_t n = part.size / tf::DataTypeSize(values_.dtype());
  const ScopedFlushDenormals flush;
  switch (values_.dtype()) {
    case tf::DT_DOUBLE:
      return AddInOrder(all, n, reinterpret_cast<double*>(data(part)));
    case tf::DT_INT64:
      return AddInOrder(all, n, reinterpret_cast<int64_t*>(data(part)));
    default:
      return AddInOrder(all, n, reinterpret_cast<float*>(data(part)));
  }
}

void TensorExchange::Transfer::AddUpWhole() {
  AddUp(Whole());
  {
    absl::MutexLock lock(&mu_);
    added_ = true;
  }
  GoOn();
}

void TensorExchange::Transfer::AddUpOwnPart() {
  AddUp(PartOf(place()));
  std::vector<int> others;
  for (int member = 0; member < num_members(); ++member) {
    if (member != place()) others.push_back(member);
  }
  Offer(others, "sum", PartOf(place()));
  {
    absl::MutexLock lock(&mu_);
    added_ = true;
  }
  GoOn();
}

void TensorExchange::Transfer::Schedule(const Part& part, void (Transfer::*step)()) {
  if (part.size <= kSmallBytes) return (this->*step)();
  exchange_->device_->tensorflow_cpu_worker_threads()->workers->Schedule(
      [self = shared_from_this(), step] { (self.get()->*step)(); });
}

void TensorExchange::Transfer::GoOn() {
  bool adds = false;
  absl::Status status;
  {
    absl::MutexLock lock(&mu_);
    if (ended_ || asked_ > 0) return;
    if (status_.ok() && offered_ > 0) return;
    if (status_.ok() && !added_) {
      // Overwrites values that all others have received.
      if (!at_once_ || adds_) return;
      adds = adds_ = true;
    } else {
      ended_ = true;
      status = status_;
    }
  }
  if (adds) return Schedule(Whole(), &Transfer::AddUpWhole);
  exchange_->Forget(shared_from_this());
  done_(status);
}

// ---------------------------------------------------------------- TensorExchange

TensorExchange::TensorExchange(tf::Device* device, std::vector<Member> members,
                               int place,
                               tf::core::RefCountPtr<tf::RemoteRendezvous> rendezvous)
    : device_(device),
      members_(std::move(members)),
      place_(place),
      rendezvous_(std::move(rendezvous)) {}

void TensorExchange::Sum(const std::string& name, const tf::Tensor& values, Done done) {
  const auto transfer =
      std::make_shared<Transfer>(shared_from_this(), name, values, std::move(done));
  {
    absl::MutexLock lock(&mu_);
    under_way_.insert(transfer);
  }
  transfer->Start();
}

void TensorExchange::Forget(const std::shared_ptr<Transfer>& transfer) {
  absl::MutexLock lock(&mu_);
  under_way_.erase(transfer);
}

void TensorExchange::Abort(const absl::Status& why) {
  bool first = false;
  std::vector<std::shared_ptr<Transfer>> transfers;
  {
    absl::MutexLock lock(&mu_);
    first = !std::exchange(aborted_, true);
    transfers.assign(under_way_.begin(), under_way_.end());
  }
  if (first) rendezvous_->StartAbort(why);
  for (const auto& transfer : transfers) transfer->Fail(why);
}

}  // namespace tensorbow
