// The CPUs that this process may use: its affinity mask, and the CPU time that the
// control groups it runs in grant (a container with 2 CPUs on a machine of 64).
#ifndef TENSORBOW_CC_SUPPORT_CPUS_H_
#define TENSORBOW_CC_SUPPORT_CPUS_H_

#include <optional>
#include <string>
#include <vector>

namespace tensorbow {

// Numbers of the CPUs that the calling thread may run on, ascending. Empty if the
// system does not say.
std::vector<int> AllowedCpus();

// How many CPUs' time the control groups of this process grant, by versions 1 and 2 of
// their interface; nothing if they do not limit it. `root`: where the file system
// begins, for tests.
std::optional<double> CpuQuota(const std::string& root = "");

// The number of CPUs to compute on: those allowed, but no more than the quota, rounded
// up. At least 1.
int NumCores();

// Binds the calling thread to these CPUs, if the system lets it.
void PinThisThread(const std::vector<int>& cpus);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SUPPORT_CPUS_H_
