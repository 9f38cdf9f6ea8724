#include "cc/cluster/notice.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace tensorbow {

namespace {

constexpr absl::string_view kMark = "tensorbow";
constexpr size_t kFields = 8;

std::optional<std::vector<int>> HostsFrom(absl::string_view text) {
  std::vector<int> hosts;
  for (absl::string_view part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    if (!absl::SimpleAtoi(part, &hosts.emplace_back())) return std::nullopt;
  }
  return hosts;
}

}  // namespace

std::string ToText(const Notice& notice) {
  return absl::StrCat(kMark, " ", static_cast<int>(notice.state), " ", notice.epoch,
                      " ", notice.program, " ", absl::StrJoin(notice.members, ","), " ",
                      absl::StrJoin(notice.new_group, ","), " ", notice.leader, " ",
                      notice.failure);
}

std::optional<Notice> NoticeFrom(absl::string_view text) {
  const std::vector<absl::string_view> fields =
      absl::StrSplit(text, absl::MaxSplits(' ', kFields - 1));
  if (fields.size() != kFields || fields[0] != kMark) return std::nullopt;
  Notice notice;
  int state = 0;
  const std::optional<std::vector<int>> members = HostsFrom(fields[4]);
  const std::optional<std::vector<int>> new_group = HostsFrom(fields[5]);
  if (!absl::SimpleAtoi(fields[1], &state) || state < 0 ||
      state > static_cast<int>(Notice::State::kRejoins) ||
      !absl::SimpleAtoi(fields[2], &notice.epoch) ||
      !absl::SimpleAtoi(fields[3], &notice.program) || !members.has_value() ||
      !new_group.has_value() || !absl::SimpleAtoi(fields[6], &notice.leader)) {
    return std::nullopt;
  }
  notice.state = static_cast<Notice::State>(state);
  notice.members = *members;
  notice.new_group = *new_group;
  notice.failure = std::string(fields[7]);
  return notice;
}

}  // namespace tensorbow
