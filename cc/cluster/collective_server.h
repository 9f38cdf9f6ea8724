// This process as a member of a TensorFlow cluster: TensorFlow's own gRPC server, with
// a device of ours beside those of sessions and of the eager context, and its
// collective executor. A process has at most one server, which cannot be shut down: it
// is never destroyed.
//
// The server listens on all network addresses of the machine and authenticates nobody.
#ifndef TENSORBOW_CC_CLUSTER_COLLECTIVE_SERVER_H_
#define TENSORBOW_CC_CLUSTER_COLLECTIVE_SERVER_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cc/cluster/notice.h"
#include "tensorflow/core/distributed_runtime/server_lib.h"
#include "tensorflow/core/framework/collective.h"
#include "tensorflow/core/framework/device.h"

namespace tensorbow {

class NotedDevices;

class CollectiveServer {
 public:
  // Starts the process's server as number `rank` of `addresses` ("host:port"). Others
  // need not be there yet. FailedPrecondition if the process is part of another
  // cluster, Unavailable if its port is taken.
  static absl::StatusOr<CollectiveServer*> Start(
      const std::vector<std::string>& addresses, int rank);

  CollectiveServer(const CollectiveServer&) = delete;
  CollectiveServer& operator=(const CollectiveServer&) = delete;

  const std::vector<std::string>& addresses() const { return addresses_; }
  int rank() const { return rank_; }
  tensorflow::Device* device() const { return device_; }
  // Thread-safe. What has been returned stays valid.
  tensorflow::CollectiveExecutor* executor() const { return executor_.load(); }

  // The key of a sum. Hosts start their sums for the first time in the same order, so
  // that a sum has the same key on all of them. ResetKeys() begins again, on all hosts.
  // Thread-safe.
  int NextKey() { return next_key_.fetch_add(1); }
  void ResetKeys() { next_key_.store(1); }

  // Makes an executor that knows of no sums, and whose groups are led by host `leader`.
  // REQUIRES: no sum is under way.
  absl::Status Renew(int leader);
  // The executor has made a sum of all members: from now on it is known which processes
  // they are.
  void NoteMembers() { known_.store(executor()); }

  // Whether each of these hosts answers within the time and is the process it was; OK
  // for this one and for all others. Thread-safe.
  std::vector<absl::Status> CheckHealth(const std::vector<int>& hosts,
                                        absl::Duration timeout) const;

  // What other hosts read of this one; and read of these, by host: nothing of those
  // that do not answer in time. Thread-safe.
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
  tensorflow::Device* device_ = nullptr;  // the server's
  NotedDevices* devices_ = nullptr;       // likewise
  // One reference is ours, for ever: requests of others may be in them.
  std::atomic<tensorflow::CollectiveExecutor*> executor_{nullptr};
  std::atomic<tensorflow::CollectiveExecutor*> known_{nullptr};
};

// "/job:worker/replica:0/task:2"
std::string TaskName(int rank);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_CLUSTER_COLLECTIVE_SERVER_H_
