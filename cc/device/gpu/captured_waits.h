// Tells whether a captured wait for an event has been shown to work on this machine.
//
// A CUDA graph with an external wait has to wait, at each launch, for what the event
// was last recorded at. CUDA's documentation does not promise that, so learners capture
// waits only where benchmarks/gpu.sh events has passed with the same driver: it leaves
// a file behind that says so. Everywhere else waits are enqueued outside the graph.
#ifndef TENSORBOW_CC_DEVICE_GPU_CAPTURED_WAITS_H_
#define TENSORBOW_CC_DEVICE_GPU_CAPTURED_WAITS_H_

#include <string>

namespace tensorbow {

// Returns the path of the file: in $XDG_CACHE_HOME, or ~/.cache. Empty without a home.
std::string EventsPassedFile();

// Returns whether the file says that the check has passed with this CUDA driver.
bool EventsHavePassed(const std::string& file, int driver_version);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_DEVICE_GPU_CAPTURED_WAITS_H_
