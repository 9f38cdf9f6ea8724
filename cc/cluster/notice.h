// What a host lets the others read at any time, beside the sums that it makes with
// them: why these fail, and, of an elastic cluster, whether it trains or waits to be
// taken back.
#ifndef TENSORBOW_CC_CLUSTER_NOTICE_H_
#define TENSORBOW_CC_CLUSTER_NOTICE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tensorbow {

struct Notice {
  enum class State { kNone, kMember, kReturns };
  State state = State::kNone;
  int64_t epoch = 0;         // of a member, and of a failure
  int64_t program = 0;       // what it trains, and with which options; 0: not yet known
  std::vector<int> members;  // of a member's group
  // The hosts that are about to meet, where one is taken back, and who leads them.
  std::vector<int> meets;
  int leader = 0;
  // Why sums of the epoch fail; empty if they do not. For people.
  std::string failure;
};

std::string ToText(const Notice& notice);
// Nothing if it is none.
std::optional<Notice> NoticeFrom(absl::string_view text);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_CLUSTER_NOTICE_H_
