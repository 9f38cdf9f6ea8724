// The hosts of a cluster, and sums over all of them. A subclass is a way to reach the
// other hosts.
//
// All hosts make the same sums in the same order and start each equally often. Several
// sums may be under way at a time. A difference between hosts ends in an error, at the
// latest in that of the cluster (Fail()).
#ifndef TENSORBOW_CC_SYNCHRONISER_HOSTS_HOSTS_H_
#define TENSORBOW_CC_SYNCHRONISER_HOSTS_HOSTS_H_

#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace tensorbow {

// A vector that hosts add up, again and again. Thread-compatible. Its destructor waits
// for a sum that is under way.
class HostSum {
 public:
  virtual ~HostSum() = default;

  // This host's values; after Await() the sum, with the same bits on every host. A
  // failed sum moves them and leaves them undefined. REQUIRES: no sum is under way.
  virtual void* data() = 0;
  template <typename T>
  T* as() {
    return static_cast<T*>(data());
  }

  // data() ← Σ over the hosts of their data(), in the background. REQUIRES: no sum is
  // under way.
  virtual void Start() = 0;
  // Waits for the sum under way, if any. Returns the error of the last sum, empty if
  // there is none.
  virtual std::string Await() = 0;
};

// Thread-safe. Outlives its sums.
class Hosts {
 public:
  enum class Type { kFloat, kDouble, kInt64 };

  virtual ~Hosts() = default;

  virtual int size() const = 0;
  virtual int rank() const = 0;  // of this host; 0 is the chief

  // Returns a vector of n >= 1 zeros.
  virtual std::unique_ptr<HostSum> NewSum(Type type, int64_t n) = 0;

  // Fails all sums from now on, here and on the other hosts. `why`: for users. Only the
  // first call has an effect.
  virtual void Fail(const std::string& why) = 0;
  // The reason of the failure; empty if there is none.
  virtual std::string error() const = 0;

  // Returns whether hosts go on without those that have died or hang.
  virtual bool elastic() const { return false; }
  // The hosts that take part in sums, ascending.
  virtual std::vector<int> members() const {
    std::vector<int> all(size());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  // Regroups elastic hosts after a failed sum: leaves out those that do not answer, and
  // waits until all others have done so. Afterwards members can start sums again, in
  // the same order. Sets `all`, by host, to the numbers that each member has brought,
  // equally many; empty for other hosts. Returns the permanent failure, empty on
  // success. `admits`: no sum has failed, and hosts that wait to rejoin become
  // members; all members call it after the same sum. REQUIRES: nobody starts or awaits
  // a sum.
  virtual std::string Regroup(const std::vector<int64_t>& brought, bool admits,
                              std::vector<std::vector<int64_t>>* all) {
    return error();
  }
  // Returns whether this host rejoins others that train, with its first Regroup().
  virtual bool rejoins() const { return false; }
  // Returns whether another host with the same description waits to rejoin.
  virtual bool sees_rejoining() const { return false; }
  // Describes the host's program and options. A host rejoins those that have described
  // the same. Not 0.
  virtual void Describe(int64_t program) {}
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_HOSTS_HOSTS_H_
