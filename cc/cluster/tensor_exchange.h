// Sums over the hosts of a group by TensorFlow's transport of tensors, by which its
// graphs send tensors from process to process.
//
// Each host offers its own values and asks the others for theirs. Two hosts, and more
// for small vectors, exchange whole vectors. Otherwise member k adds up part k of the
// vector, and all others ask for its sum: every host sends and receives twice its
// vector at most, in two steps whatever the number of hosts. Values are added in the
// order of the ranks, so that all hosts have the same bits.
//
// (CollectiveReduceV2 takes 2 (N − 1) steps, and more than twice the work: its
// transport, RecvBuf, packs vectors into messages within messages.)
#ifndef TENSORBOW_CC_CLUSTER_TENSOR_EXCHANGE_H_
#define TENSORBOW_CC_CLUSTER_TENSOR_EXCHANGE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "tensorflow/core/distributed_runtime/rendezvous_mgr_interface.h"
#include "tensorflow/core/framework/device.h"
#include "tensorflow/core/framework/tensor.h"

namespace tensorbow {

// One host's part of the sums. Owned by std::shared_ptr: running sums keep it.
// Thread-safe.
class TensorExchange : public std::enable_shared_from_this<TensorExchange> {
 public:
  struct Member {
    std::string device;    // the name of the device
    uint64_t incarnation;  // of the device: differs if the process is another
  };
  using Done = std::function<void(const absl::Status&)>;

  // `members`: in the order of their ranks; `place`: of this host among them, whose
  // device is `device`, not owned. All members, and no other group, use the rendezvous.
  TensorExchange(
      tensorflow::Device* device, std::vector<Member> members, int place,
      tensorflow::core::RefCountPtr<tensorflow::RemoteRendezvous> rendezvous);

  // values ← Σ over the members of their `values`, in the background; then calls `done`
  // in any thread. `name`: the same on all members, and different from other running
  // sums. After an error the values are undefined, and others may refer to their memory
  // for a while. REQUIRES: floats, doubles or int64s, aligned as tensors are, which
  // nobody touches until then.
  void Sum(const std::string& name, const tensorflow::Tensor& values, Done done)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Makes all current and future sums fail, here and on the other hosts.
  void Abort(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  class Transfer;

  void Forget(const std::shared_ptr<Transfer>& transfer) ABSL_LOCKS_EXCLUDED(mu_);

  tensorflow::Device* const device_;  // not owned
  const std::vector<Member> members_;
  const int place_;
  const tensorflow::core::RefCountPtr<tensorflow::RemoteRendezvous> rendezvous_;

  absl::Mutex mu_;
  absl::flat_hash_set<std::shared_ptr<Transfer>> under_way_ ABSL_GUARDED_BY(mu_);
  bool aborted_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_CLUSTER_TENSOR_EXCHANGE_H_
