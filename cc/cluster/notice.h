// The information that a host publishes at any time, besides sums: why they fail, and
// in an elastic cluster whether it trains or waits to rejoin.
#ifndef TENSORBOW_CC_CLUSTER_NOTICE_H_
#define TENSORBOW_CC_CLUSTER_NOTICE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tensorbow {

struct Notice {
  enum class State { kNone, kMember, kRejoins };
  State state = State::kNone;
  int64_t epoch = 0;         // of a member, or of a failure
  int64_t program = 0;       // identifies program and options; 0: not yet known
  std::vector<int> members;  // of a member's group
  // The hosts that are about to form a group with a rejoining host, and their leader.
  std::vector<int> new_group;
  int leader = 0;
  // The reason why sums of the epoch fail, for users; empty if they do not.
  std::string failure;
};

std::string ToText(const Notice& notice);
// Returns the notice in the text; nullopt if there is none.
std::optional<Notice> NoticeFrom(absl::string_view text);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_CLUSTER_NOTICE_H_
