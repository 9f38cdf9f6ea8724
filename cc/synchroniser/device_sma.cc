#include "cc/synchroniser/device_sma.h"

#include <mutex>
#include <utility>

namespace tensorbow {
namespace {

struct Registration {
  std::mutex mu;
  DeviceSmaFactory factory;  // guarded by mu
};
Registration& Registered() {
  static auto* const registration = new Registration;
  return *registration;
}

}  // namespace

void RegisterDeviceSma(DeviceSmaFactory factory) {
  std::lock_guard<std::mutex> lock(Registered().mu);
  Registered().factory = std::move(factory);
}

DeviceSma NewDeviceSma(const SmaOptions& options, std::vector<LearnerStream> learners,
                       CentralModel* central) {
  DeviceSmaFactory factory;
  {
    std::lock_guard<std::mutex> lock(Registered().mu);
    factory = Registered().factory;
  }
  if (!factory) return {nullptr, nullptr, "no library for these devices is loaded"};
  return factory(options, std::move(learners), central);
}

}  // namespace tensorbow
