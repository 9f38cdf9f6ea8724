// The file that says that captured waits for events work on this machine.
//
// A CUDA graph with an external wait must wait, at each launch, for the latest
// recording of the event. CUDA's documentation does not promise that. So learners
// capture waits only if benchmarks/gpu.sh events has passed with the same driver, which
// leaves this file. Otherwise waits are enqueued outside the graph.
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
