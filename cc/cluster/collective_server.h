// This process as a member of a TensorFlow cluster: TensorFlow's own gRPC server, with
// its rendezvous and its collective executor. It has a device of ours, besides those of
// sessions and of the eager context. A process has at most one server, which cannot be
// shut down: it is never destroyed.
//
// The server listens on all network addresses of the machine and authenticates nobody.
#ifndef TENSORBOW_CC_CLUSTER_COLLECTIVE_SERVER_H_
#define TENSORBOW_CC_CLUSTER_COLLECTIVE_SERVER_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "cc/cluster/notice.h"
#include "tensorflow/core/distributed_runtime/rendezvous_mgr_interface.h"
#include "tensorflow/core/distributed_runtime/server_lib.h"
#include "tensorflow/core/framework/collective.h"
#include "tensorflow/core/framework/device.h"

namespace tensorbow {

class NotedDevices;

class CollectiveServer {
 public:
  // Starts the process's server as number `rank` of `addresses` ("host:port"). Other
  // hosts may start later. FailedPrecondition if the process is part of another
  // cluster, Unavailable if its port is taken.
  static absl::StatusOr<CollectiveServer*> Start(
      const std::vector<std::string>& addresses, int rank);

  CollectiveServer(const CollectiveServer&) = delete;
  CollectiveServer& operator=(const CollectiveServer&) = delete;

  const std::vector<std::string>& addresses() const { return addresses_; }
  int rank() const { return rank_; }
  tensorflow::Device* device() const { return device_; }
  // Returns the executor, which stays valid. Thread-safe.
  tensorflow::CollectiveExecutor* executor() const { return executor_.load(); }

  // Returns the key of a sum. All hosts start new sums in the same order, so a sum has
  // the same key on all of them. ResetKeys() starts the count again, on all hosts.
  // Thread-safe.
  int NextKey() { return next_key_.fetch_add(1); }
  void ResetKeys() { next_key_.store(1); }

  // Makes an executor without sums, whose groups are led by host `leader`. REQUIRES: no
  // sum is running.
  absl::Status Renew(int leader);

  // Returns a rendezvous that exchanges tensors with the hosts that open the same
  // number. A number is used up when the rendezvous has been aborted; numbers from
  // unused_rendezvous() on are free. Thread-safe.
  absl::StatusOr<tensorflow::core::RefCountPtr<tensorflow::RemoteRendezvous>>
  OpenRendezvous(int64_t number);
  int64_t unused_rendezvous() const { return unused_rendezvous_.load(); }

  // Records the processes of the members. Thread-safe.
  uint64_t incarnation() const { return device_->attributes().incarnation(); }
  void NoteMembers(const std::vector<int>& hosts,
                   const std::vector<uint64_t>& incarnations) ABSL_LOCKS_EXCLUDED(mu_);

  // A host's answer to a request for its status.
  struct Answer {
    absl::Status status;       // the reason why there is no answer in time
    uint64_t incarnation = 0;  // identifies the process
    std::optional<Notice> notice;
  };
  // Returns the answers by host, and this host's own state. Thread-safe.
  std::vector<Answer> AskAll(const std::vector<int>& hosts,
                             absl::Duration timeout) const;
  // Returns the answers as AskAll(); none for hosts restarted since NoteMembers().
  std::vector<Answer> CheckHealth(const std::vector<int>& hosts,
                                  absl::Duration timeout) const
      ABSL_LOCKS_EXCLUDED(mu_);

  // Publish this host's notice, and return the notices of other hosts, by host: nullopt
  // if they do not answer in time. Thread-safe.
  void Post(const Notice& notice);
  std::vector<std::optional<Notice>> ReadNotices(const std::vector<int>& hosts,
                                                 absl::Duration timeout) const;

 private:
  CollectiveServer(std::vector<std::string> addresses, int rank);
  absl::Status Open();

  const std::vector<std::string> addresses_;
  const int rank_;
  std::unique_ptr<tensorflow::ServerInterface> server_;
  std::atomic<int> next_key_{1};
  tensorflow::Device* device_ = nullptr;  // the server's own
  NotedDevices* devices_ = nullptr;       // the server's own
  // Owns one reference for ever: requests of others may use the executor.
  std::atomic<tensorflow::CollectiveExecutor*> executor_{nullptr};
  std::atomic<int64_t> unused_rendezvous_{0};

  mutable absl::Mutex mu_;
  std::map<int, uint64_t> incarnations_ ABSL_GUARDED_BY(mu_);  // of the members
};

// "/job:worker/replica:0/task:2"
std::string TaskName(int rank);
// Returns the name of our device on that host.
std::string DeviceName(int rank);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_CLUSTER_COLLECTIVE_SERVER_H_
