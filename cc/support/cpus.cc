#include "cc/support/cpus.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <thread>

namespace tensorbow {

namespace {

// Returns the first words of a file; nothing if there is no such file.
std::vector<std::string> WordsOf(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> words;
  for (std::string word; file >> word;) words.push_back(word);
  return words;
}

std::optional<double> NumberIn(const std::string& word) {
  std::istringstream text(word);
  double number = 0;
  if (!(text >> number) || number <= 0) return std::nullopt;  // "max", -1
  return number;
}

std::optional<double> Ratio(const std::vector<std::string>& quota,
                            const std::vector<std::string>& period) {
  if (quota.empty() || period.empty()) return std::nullopt;
  const std::optional<double> time = NumberIn(quota[0]);
  const std::optional<double> of = NumberIn(period[0]);
  if (!time.has_value() || !of.has_value()) return std::nullopt;
  return *time / *of;
}

// Reads the quota of version 2: "<quota or max> <period>".
std::optional<double> UnifiedQuota(const std::string& group) {
  const std::vector<std::string> words = WordsOf(group + "/cpu.max");
  if (words.size() < 2) return std::nullopt;
  return Ratio({words[0]}, {words[1]});
}

std::optional<double> Version1Quota(const std::string& group) {
  return Ratio(WordsOf(group + "/cpu.cfs_quota_us"),
               WordsOf(group + "/cpu.cfs_period_us"));
}

// Returns the least quota of a group and the groups around it. In a container the path
// may be the host's; then the mount itself is the container's group.
template <typename Quota>
std::optional<double> LeastOf(const std::string& mount, std::string path,
                              const Quota& quota) {
  std::optional<double> least = quota(mount);
  while (!path.empty() && path != "/") {
    const std::optional<double> granted = quota(mount + path);
    if (granted.has_value()) least = std::min(least.value_or(*granted), *granted);
    path.erase(path.rfind('/'));
  }
  return least;
}

}  // namespace

std::vector<int> AllowedCpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

std::optional<double> CpuQuota(const std::string& root) {
  const std::string mounts = root + "/sys/fs/cgroup";
  std::ifstream groups(root + "/proc/self/cgroup");
  std::optional<double> least;
  // "<number>:<controllers>:<path>"; version 2 has no controllers here.
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second =
        first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos || line[second + 1] != '/') continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    std::optional<double> granted;
    if (controllers.empty()) {
      granted = LeastOf(mounts, path, UnifiedQuota);
    } else if (("," + controllers + ",").find(",cpu,") != std::string::npos) {
      granted = LeastOf(mounts + "/cpu", path, Version1Quota);
    }
    if (granted.has_value()) least = std::min(least.value_or(*granted), *granted);
  }
  return least;
}

int NumCores() {
  int cores = static_cast<int>(AllowedCpus().size());
  if (cores == 0) cores = static_cast<int>(std::thread::hardware_concurrency());
  // Rounds up: half a CPU is worth a thread.
  const std::optional<double> quota = CpuQuota();
  if (quota.has_value()) cores = std::min(cores, static_cast<int>(std::ceil(*quota)));
  return std::max(1, cores);
}

void PinThisThread(const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : cpus) CPU_SET(cpu, &set);
  // Ignores errors: an unpinned thread only is slower.
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

}  // namespace tensorbow
