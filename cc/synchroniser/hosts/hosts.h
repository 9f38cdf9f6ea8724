// The hosts of a cluster, for those who add up values over all of them. One subclass is
// one way to reach the other hosts.
//
// All hosts make the same sums in the same order and start each of them equally often;
// several different sums may be under way at a time. What differs between hosts shows
// in an error or, at the latest, in the one that ends the cluster (Fail()).
#ifndef TENSORBOW_CC_SYNCHRONISER_HOSTS_HOSTS_H_
#define TENSORBOW_CC_SYNCHRONISER_HOSTS_HOSTS_H_

#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace tensorbow {

// A vector that is added up over the hosts, again and again. Thread-compatible. May be
// destroyed while a sum is under way: waits for its end.
class HostSum {
 public:
  virtual ~HostSum() = default;

  // What this host has; after Await() the sum, with the same bits on every host. Moves
  // when a sum fails, and is then undefined. Not to be touched while a sum is under
  // way.
  virtual void* data() = 0;
  template <typename T>
  T* as() {
    return static_cast<T*>(data());
  }

  // data() ← Σ over the hosts of their data(), in the background. REQUIRES: no sum is
  // under way.
  virtual void Start() = 0;
  // Waits until the sum is made; at once where none is under way. Returns what went
  // wrong with the last one, or an empty text.
  virtual std::string Await() = 0;
};

// Thread-safe. Outlives its sums.
class Hosts {
 public:
  enum class Type { kFloat, kDouble, kInt64 };

  virtual ~Hosts() = default;

  virtual int size() const = 0;
  virtual int rank() const = 0;  // of this one; 0 is the chief

  // A vector of n >= 1 zeros.
  virtual std::unique_ptr<HostSum> NewSum(Type type, int64_t n) = 0;

  // All sums under way and to come fail, here and on the other hosts; `why` is for
  // people. Only the first call has an effect.
  virtual void Fail(const std::string& why) = 0;
  // Why they do, or an empty text.
  virtual std::string error() const = 0;

  // Whether the hosts that are left go on without those that have died or hang.
  virtual bool elastic() const { return false; }
  // Those that take part in sums, ascending. Others bring nothing.
  virtual std::vector<int> members() const {
    std::vector<int> all(size());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  // After a sum has failed, on elastic hosts: leaves out those that do not answer and
  // waits until all others do the same. `all` ← by host, what each member has brought,
  // which are equally many numbers; nothing of the others. Sums can be started again,
  // on all members in the same order. Returns why not, or an empty text: the hosts have
  // failed for good. `takes_back`: no sum has failed, and hosts that wait to be taken
  // back become members, too; called by all members after the same sum. REQUIRES:
  // nobody starts or awaits a sum.
  virtual std::string Regroup(const std::vector<int64_t>& brought, bool takes_back,
                              std::vector<std::vector<int64_t>>* all) {
    return error();
  }
  // Whether this host comes back to others that train, with its first Regroup().
  virtual bool returns() const { return false; }
  // Whether another one waits to be taken back, that has described the same.
  virtual bool sees_returning() const { return false; }
  // What a host trains, and with which options: it is taken back by those that do the
  // same. Not 0.
  virtual void Describe(int64_t program) {}
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_HOSTS_HOSTS_H_
