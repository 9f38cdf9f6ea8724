// The CPUs that this process may use: its affinity mask, and the CPU time granted by
// its control groups (a container with 2 CPUs on a machine of 64).
#ifndef TENSORBOW_CC_SUPPORT_CPUS_H_
#define TENSORBOW_CC_SUPPORT_CPUS_H_

#include <optional>
#include <string>
#include <vector>

namespace tensorbow {

// Returns the numbers of the CPUs that the calling thread may run on, ascending; empty
// if the system does not say.
std::vector<int> AllowedCpus();

// Returns the CPUs that the control groups of this process grant, by versions 1 and 2
// of their interface; nullopt without a limit. `root`: the root of the file system, for
// tests.
std::optional<double> CpuQuota(const std::string& root = "");

// Returns the number of CPUs to compute on: the allowed ones, at most the quota rounded
// up, at least 1.
int NumCores();

// Binds the calling thread to these CPUs, if the system allows it.
void PinThisThread(const std::vector<int>& cpus);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SUPPORT_CPUS_H_
