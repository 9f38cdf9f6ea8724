#include "cc/session/session_registry.h"

#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "tensorflow/core/common_runtime/session_factory.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

struct Entry {
  // Held while the session is in use (WithSession) and while it is destroyed.
  absl::Mutex in_use;
  TensorBowSession* session ABSL_GUARDED_BY(in_use) = nullptr;
};

struct Registry {
  absl::Mutex mu;
  int64_t next_number ABSL_GUARDED_BY(mu) = 1;
  std::map<int64_t, Options> pending ABSL_GUARDED_BY(mu);
  std::map<int64_t, std::shared_ptr<Entry>> sessions ABSL_GUARDED_BY(mu);
};

Registry& TheRegistry() {
  static auto* const registry = new Registry;
  return *registry;
}

// "tensorbow" → 0, "tensorbow://7" → 7, anything else → -1.
int64_t NumberIn(absl::string_view target) {
  int64_t number = 0;
  if (target == kTargetPrefix) return 0;
  const std::string prefix = absl::StrCat(kTargetPrefix, "://");
  if (!absl::StartsWith(target, prefix) ||
      !absl::SimpleAtoi(target.substr(prefix.size()), &number) || number <= 0) {
    return -1;
  }
  return number;
}

class Factory : public tf::SessionFactory {
 public:
  bool AcceptsOptions(const tf::SessionOptions& options) override {
    return absl::StartsWith(options.target, kTargetPrefix);
  }

  absl::Status NewSession(const tf::SessionOptions& session_options,
                          tf::Session** out) override {
    Registry& registry = TheRegistry();
    int64_t number = NumberIn(session_options.target);
    Options options;
    {
      absl::MutexLock lock(&registry.mu);
      const auto pending = registry.pending.find(number);
      if (number < 0 || (number > 0 && pending == registry.pending.end())) {
        return absl::InvalidArgumentError(
            absl::StrCat("Got session target '", session_options.target, "'; wanted '",
                         kTargetPrefix,
                         "' (default options), or create the session with "
                         "tensorbow.TensorBowSession"));
      }
      if (number == 0) {
        number = registry.next_number++;
      } else {
        options = std::move(pending->second);
        registry.pending.erase(pending);
      }
    }
    std::unique_ptr<TensorBowSession> session;
    TF_RETURN_IF_ERROR(TensorBowSession::New(session_options, options, &session));
    auto entry = std::make_shared<Entry>();
    {
      absl::MutexLock lock(&entry->in_use);
      entry->session = session.get();
    }
    session->OnDestruction([number, entry] {
      {
        absl::MutexLock lock(&TheRegistry().mu);
        TheRegistry().sessions.erase(number);
      }
      absl::MutexLock lock(&entry->in_use);
      entry->session = nullptr;
    });
    {
      absl::MutexLock lock(&registry.mu);
      registry.sessions[number] = std::move(entry);
    }
    *out = session.release();
    return absl::OkStatus();
  }

  // Clears the containers of every session and closes it, as a stock factory does.
  absl::Status Reset(const tf::SessionOptions&,
                     const std::vector<std::string>& containers) override {
    std::vector<int64_t> numbers;
    {
      absl::MutexLock lock(&TheRegistry().mu);
      for (const auto& [number, entry] : TheRegistry().sessions) {
        numbers.push_back(number);
      }
    }
    absl::Status status;
    for (int64_t number : numbers) {
      const absl::Status reset = WithSession(number, [&](TensorBowSession* session) {
        return session->Reset(containers);
      });
      if (!absl::IsNotFound(reset)) status.Update(reset);
    }
    return status;
  }
};

const bool registered = [] {
  tf::SessionFactory::Register("TENSORBOW_SESSION", new Factory);
  return true;
}();

}  // namespace

int64_t RegisterOptions(Options options) {
  Registry& registry = TheRegistry();
  absl::MutexLock lock(&registry.mu);
  const int64_t number = registry.next_number++;
  registry.pending[number] = std::move(options);
  return number;
}

void UnregisterOptions(int64_t number) {
  absl::MutexLock lock(&TheRegistry().mu);
  TheRegistry().pending.erase(number);
}

absl::Status WithSession(int64_t number,
                         const std::function<absl::Status(TensorBowSession*)>& f) {
  std::shared_ptr<Entry> entry;
  {
    absl::MutexLock lock(&TheRegistry().mu);
    const auto known = TheRegistry().sessions.find(number);
    if (known != TheRegistry().sessions.end()) entry = known->second;
  }
  if (entry != nullptr) {
    absl::ReaderMutexLock lock(&entry->in_use);
    if (entry->session != nullptr) return f(entry->session);
  }
  return absl::NotFoundError("The session has been deleted");
}

}  // namespace tensorbow
