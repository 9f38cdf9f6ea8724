#include "cc/memory/learners_that_fit.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tensorbow {
namespace {

std::string Size(int64_t bytes) {
  constexpr double kMiB = 1 << 20;
  if (bytes < kMiB) return absl::StrFormat("%.1f KiB", bytes / kMiB * 1024);
  return bytes < 1024 * kMiB ? absl::StrFormat("%.1f MiB", bytes / kMiB)
                             : absl::StrFormat("%.2f GiB", bytes / kMiB / 1024);
}

}  // namespace

int64_t LearnersThatFit(int64_t peak, int64_t available) {
  return available / std::max<int64_t>(1, peak);
}

absl::Status CheckLearnersFit(int64_t peak, int64_t available, int64_t learners) {
  const int64_t fit = LearnersThatFit(peak, available);
  if (learners <= fit) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("The device's memory is short for so many learners. Use "
                   "Options(learners_per_device=",
                   std::max<int64_t>(1, fit), ") or a smaller batch_size: got ",
                   learners, " learners, of which ", fit, " fit; one needed ",
                   Size(peak), " at its peak, all need ", Size(peak * learners),
                   ", and there are ", Size(available), "."));
}

std::string AllocatorName(int learner, int64_t learners, int64_t available) {
  std::string name = absl::StrCat("tensorbow_learner_", learner);
  if (learners == 1) return name;
  absl::StrAppend(&name, " (its limit is ", Size(available / learners), ": ", learners,
                  " learners share the device's ", Size(available),
                  ". Use a smaller Options(learners_per_device=...) or batch_size)");
  return name;
}

}  // namespace tensorbow
