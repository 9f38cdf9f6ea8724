// Elastic hosts: a host that has been lost and started again rejoins.
//
// It reads in the others' notices that they train, and publishes in its own that it
// waits. The members see that and report it with an iteration, so that all of them
// admit it before the same iteration. They form a group with it as regrouping hosts do,
// but only after every host has a new executor and says so: there is one attempt. If it
// fails, the members regroup without it, and may try again.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "cc/cluster/cluster.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace {

constexpr absl::Duration kGroupLimit = absl::Seconds(6);
constexpr absl::Duration kReadLimit = absl::Seconds(1);
constexpr absl::Duration kReadInterval = absl::Milliseconds(20);

bool Has(const std::vector<int>& hosts, int host) {
  return std::find(hosts.begin(), hosts.end(), host) != hosts.end();
}

}  // namespace

void Cluster::Post(const std::function<void(Notice*)>& change) {
  absl::MutexLock lock(&mu_);
  change(&notice_);
  server_->Post(notice_);
}

void Cluster::Describe(int64_t program) {
  Post([&](Notice* notice) { notice->program = program; });
}

bool Cluster::rejoins() const {
  absl::MutexLock lock(&mu_);
  return rejoins_;
}

std::vector<std::optional<Notice>> Cluster::ReadNotices() const {
  return server_->ReadNotices(Hosts::members(), kReadLimit);
}

std::vector<int> Cluster::FindRejoining() const {
  const std::vector<int> members = this->members();
  std::vector<int> others;
  for (int host = 0; host < size(); ++host) {
    if (!Has(members, host)) others.push_back(host);
  }
  if (others.empty()) return {};
  const auto notices = server_->ReadNotices(others, kReadLimit);
  absl::MutexLock lock(&mu_);
  if (rejoins_ || notice_.program == 0) return {};
  std::vector<int> rejoining;
  for (int host : others) {
    const std::optional<Notice>& notice = notices[host];
    if (!notice.has_value() || notice->state != Notice::State::kRejoins) continue;
    if (notice->program == notice_.program) rejoining.push_back(host);
  }
  return rejoining;
}

absl::Status Cluster::FormGroupWithRejoining(const std::vector<int>& hosts, int leader,
                                             const std::vector<int64_t>& brought,
                                             std::vector<std::vector<int64_t>>* all) {
  TF_RETURN_IF_ERROR(server_->Renew(leader));
  Post([&](Notice* notice) {
    notice->new_group = hosts;
    notice->leader = leader;
  });
  const absl::Time deadline = absl::Now() + kGroupLimit;
  const auto all_ready = [&] {
    const auto notices = server_->ReadNotices(hosts, kReadLimit);
    return std::all_of(hosts.begin(), hosts.end(), [&](int host) {
      return host == rank() ||
             (notices[host].has_value() && notices[host]->new_group == hosts);
    });
  };
  absl::Status formed;
  while (formed.ok() && !all_ready()) {
    absl::SleepFor(kReadInterval);
    if (absl::Now() > deadline) formed = absl::CancelledError();
  }
  if (formed.ok()) formed = FormGroup(hosts, kGroupLimit, brought, all);
  if (!formed.ok()) Post([](Notice* notice) { notice->new_group.clear(); });
  return formed;
}

bool Cluster::Admit(const std::vector<int64_t>& brought,
                    std::vector<std::vector<int64_t>>* all) {
  if (!AwaitIdle(hang_limit_)) return false;
  const std::vector<int> members = this->members();
  const absl::StatusOr<std::vector<int>> left = FindLeft();
  if (!left.ok() || *left != members) return false;
  std::vector<int> hosts = FindRejoining();
  if (hosts.empty()) return false;
  hosts.insert(hosts.end(), members.begin(), members.end());
  std::sort(hosts.begin(), hosts.end());
  return FormGroupWithRejoining(hosts, members.front(), brought, all).ok();
}

absl::Status Cluster::Rejoin(const std::vector<int64_t>& brought,
                             std::vector<std::vector<int64_t>>* all) {
  int64_t program = 0;
  Post([&](Notice* notice) {
    notice->state = Notice::State::kRejoins;
    program = notice->program;
  });
  // Later epochs may have this process among their members.
  int64_t tried_in = std::numeric_limits<int64_t>::max();
  const absl::Time deadline = absl::Now() + start_limit_;
  absl::Time seen = absl::Now();
  for (; absl::Now() < deadline; absl::SleepFor(kReadInterval)) {
    Notice newest;
    for (const std::optional<Notice>& notice : ReadNotices()) {
      if (!notice.has_value() || notice->state != Notice::State::kMember) continue;
      const bool newer = notice->epoch > newest.epoch;
      const bool free = notice->epoch == newest.epoch && newest.new_group.empty();
      if (newer || free) newest = *notice;
    }
    if (newest.state != Notice::State::kMember) {
      if (absl::Now() > seen + 2 * hang_limit_) break;
      continue;
    }
    seen = absl::Now();
    if (newest.program != 0 && newest.program != program) {
      const std::string others = absl::StrJoin(newest.members, ", ");
      return absl::FailedPreconditionError(absl::StrCat(
          "Host ", rank(), " was restarted and cannot rejoin: the other hosts (",
          others,
          ") train other variables, or with other options. Start it with the learning "
          "run that they execute"));
    }
    if (newest.epoch > tried_in && Has(newest.members, rank())) {
      // They have formed a group with this host, but it has failed: they regroup.
      {
        absl::MutexLock lock(&mu_);
        rejoins_ = false;
        group_ = {newest.members, newest.epoch, /*exchange=*/nullptr};
        error_.clear();
      }
      Fail(kNotRejoined);
      const std::string error = Regroup(brought, /*admits=*/false, all);
      return error.empty() ? absl::OkStatus() : absl::AbortedError(error);
    }
    if (!Has(newest.new_group, rank())) continue;
    tried_in = newest.epoch;
    if (FormGroupWithRejoining(newest.new_group, newest.leader, brought, all).ok()) {
      return absl::OkStatus();
    }
    Abort(kRegroups);
    if (!AwaitIdle(hang_limit_)) break;
  }
  Post([](Notice* notice) { notice->state = Notice::State::kNone; });
  return absl::DeadlineExceededError(absl::StrCat(
      "Host ", rank(),
      " was restarted and could not rejoin: the other hosts have ended, or "
      "execute no learning run. Start all hosts again, from the last saved "
      "state"));
}

}  // namespace tensorbow
