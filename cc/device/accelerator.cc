#include "cc/device/accelerator.h"

#include <atomic>

namespace tensorbow {
namespace {

std::atomic<AcceleratorBackend*> registered{nullptr};

}  // namespace

AcceleratorBackend* Accelerators() { return registered.load(); }

void RegisterAccelerators(AcceleratorBackend* backend) { registered.store(backend); }

}  // namespace tensorbow
