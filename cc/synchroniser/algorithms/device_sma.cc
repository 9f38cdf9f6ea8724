#include "cc/synchroniser/algorithms/device_sma.h"

#include <utility>

#include "cc/support/mutex.h"

namespace tensorbow {
namespace {

struct Registration {
  Mutex mu;
  DeviceSmaFactory factory TENSORBOW_GUARDED_BY(mu);
};
Registration& Registered() {
  static auto* const registration = new Registration;
  return *registration;
}

}  // namespace

void RegisterDeviceSma(DeviceSmaFactory factory) {
  Registration& registered = Registered();
  MutexLock lock(&registered.mu);
  registered.factory = std::move(factory);
}

DeviceSma NewDeviceSma(const SmaOptions& options, std::vector<LearnerStream> learners,
                       CentralModel* central) {
  Registration& registered = Registered();
  DeviceSmaFactory factory;
  {
    MutexLock lock(&registered.mu);
    factory = registered.factory;
  }
  if (!factory) return {nullptr, nullptr, "no library for these devices is loaded"};
  return factory(options, std::move(learners), central);
}

}  // namespace tensorbow
