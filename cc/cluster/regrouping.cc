// Elastic hosts: the remaining hosts of a cluster continue.
//
// A host whose sum has failed asks which members answer, and tries to compute one sum
// with them. Only hosts with the same members use the same keys. The sum carries each
// host's report. If hosts disagree, or one has not noticed the failure yet, the attempt
// times out and is repeated. The group's leader waits longer than the others, so that
// attempts overlap.
//
// Fewer than half of the members do not continue, since the others may. Nor does a half
// without the lowest member, unless the others' processes are known to have ended.
#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "cc/cluster/cluster.h"
#include "cc/cluster/cluster_sum.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/hash.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

constexpr absl::Duration kLeaderWaits = absl::Seconds(6);
constexpr absl::Duration kOthersWait = absl::Seconds(2);
constexpr absl::Duration kPollInterval = absl::Milliseconds(5);
constexpr int kGroupKey = 1 << 30;
// A host's fields besides its report: its presence, its epoch, its process, and the
// number of an unused rendezvous.
constexpr int kOwnFields = 4;

// Returns the key under which only these hosts form a group.
int GroupKey(const std::vector<int>& hosts) {
  const uint64_t hash = tf::Hash64(absl::StrJoin(hosts, ","));
  return kGroupKey + static_cast<int>(hash % (1 << 29));
}

}  // namespace

bool Cluster::AwaitIdle(absl::Duration limit) const {
  const absl::Time deadline = absl::Now() + limit;
  while (under_way_.load() > 0) {
    if (absl::Now() > deadline) return false;
    absl::SleepFor(kPollInterval);
  }
  return true;
}

std::vector<int> Cluster::MembersByOthers(const std::vector<int>& hosts) const {
  const Group group = this->group();
  std::set<int> all(group.members.begin(), group.members.end());
  for (const auto& notice : server_->ReadNotices(hosts, hang_limit_ / 2)) {
    if (!notice.has_value() || notice->state != Notice::State::kMember) continue;
    if (notice->epoch <= group.epoch) continue;
    all.insert(notice->members.begin(), notice->members.end());
  }
  return {all.begin(), all.end()};
}

absl::StatusOr<std::vector<int>> Cluster::FindLeft() const {
  std::vector<int> members = this->members();
  auto answers = server_->CheckHealth(members, hang_limit_ / 2);
  std::vector<int> left, lost;
  for (int host : members) {
    if (answers[host].status.ok()) left.push_back(host);
  }
  // A host has rejoined, of which this one has not heard.
  const std::vector<int> known = MembersByOthers(left);
  if (known.size() > members.size()) {
    members = known;
    answers = server_->CheckHealth(members, hang_limit_ / 2);
  }
  left.clear();
  bool all_ended = true;  // the processes of all lost hosts
  for (int host : members) {
    const absl::Status& status = answers[host].status;
    (status.ok() ? left : lost).push_back(host);
    all_ended &= !absl::IsDeadlineExceeded(status);
  }
  const bool half = 2 * left.size() == members.size();
  const bool may_go_on = half ? all_ended || left.front() == members.front()
                              : 2 * left.size() > members.size();
  if (may_go_on) return left;
  return absl::UnavailableError(absl::StrCat(
      error(), ". Host ", rank(),
      " reaches too few hosts to continue: those that it does not reach may "
      "continue without it. Check its network; it reaches ",
      left.size() - 1, " of ", members.size() - 1, " others."));
}

absl::Status Cluster::FormGroup(const std::vector<int>& hosts, absl::Duration limit,
                                const std::vector<int64_t>& brought,
                                std::vector<std::vector<int64_t>>* all) {
  const int64_t width = kOwnFields + static_cast<int64_t>(brought.size());
  const int key = GroupKey(hosts);
  GroupSum sum(this, static_cast<int>(hosts.size()), key, width * size());
  int64_t* const mine = sum.values() + width * rank();
  mine[0] = 1;
  mine[1] = group().epoch;
  mine[2] = static_cast<int64_t>(server_->incarnation());
  mine[3] = server_->unused_rendezvous();
  std::copy(brought.begin(), brought.end(), mine + kOwnFields);
  TF_RETURN_IF_ERROR(sum.AddUp(limit));
  int64_t last_epoch = 0, rendezvous = 0;
  std::vector<uint64_t> incarnations;
  all->assign(size(), {});
  for (int host : hosts) {
    const int64_t* const said = sum.values() + width * host;
    if (said[0] != 1) return absl::InternalError("Another group has formed");
    last_epoch = std::max(last_epoch, said[1]);
    incarnations.push_back(static_cast<uint64_t>(said[2]));
    rendezvous = std::max(rendezvous, said[3]);
    (*all)[host].assign(said + kOwnFields, said + width);
  }
  server_->ResetKeys();
  TF_RETURN_IF_ERROR(SetGroup(hosts, last_epoch + 1, incarnations, rendezvous));
  sees_rejoining_.store(false);
  Post([&](Notice* notice) {
    notice->state = Notice::State::kMember;
    notice->epoch = last_epoch + 1;
    notice->members = hosts;
    notice->new_group.clear();
  });
  return absl::OkStatus();
}

absl::Status Cluster::Greet() {
  std::vector<std::vector<int64_t>> nothing;
  const std::vector<int> everybody = members();
  absl::Status formed;
  if (everybody.size() > 1) formed = FormGroup(everybody, start_limit_, {}, &nothing);
  if (formed.ok()) return formed;
  return absl::DeadlineExceededError(absl::StrCat(
      "All hosts of the cluster answer, but they did not start together within ",
      absl::FormatDuration(start_limit_),
      ". Start all hosts again, from the last saved state."));
}

std::string Cluster::Regroup(const std::vector<int64_t>& brought, bool admits,
                             std::vector<std::vector<int64_t>>* all) {
  if (rejoins()) return std::string(Rejoin(brought, all).message());
  if (admits) {
    if (Admit(brought, all)) return "";
    Fail(kNotRejoined);  // the others may have formed a group
  }
  const std::string why = error();
  const std::string me = absl::StrCat("host ", rank(), " (");
  const bool lost = absl::StrContains(why, ") does not answer: ") ||
                    absl::StrContains(why, kRegroups) ||
                    absl::StrContains(why, kNotRejoined);
  if (!elastic_ || !lost || absl::StrContains(why, " has failed: ")) return why;
  if (absl::StartsWith(why, me)) {
    return absl::StrCat(why,
                        ". The others go on without this host: start it again, and it "
                        "rejoins");
  }
  const absl::Time deadline = absl::Now() + start_limit_;
  while (absl::Now() < deadline) {
    // Aborts also after a failed attempt, in which others may still wait.
    Abort(kRegroups);
    if (!AwaitIdle(hang_limit_)) break;
    const absl::StatusOr<std::vector<int>> left = FindLeft();
    if (!left.ok()) return std::string(left.status().message());
    const absl::Status renewed = server_->Renew(left->front());
    if (!renewed.ok()) return std::string(renewed.message());
    const bool leads = left->front() == rank();
    const absl::Status formed =
        FormGroup(*left, leads ? kLeaderWaits : kOthersWait, brought, all);
    if (formed.ok()) return "";
    const std::string told = WhyAborted(formed.message());
    if (absl::StrContains(told, " has failed: ")) return told;
  }
  return absl::StrCat(why, ". The remaining hosts do not find each other within ",
                      absl::FormatDuration(start_limit_));
}

}  // namespace tensorbow
