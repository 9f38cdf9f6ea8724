#include "cc/synchroniser/hosts/host_rounds.h"

#include <algorithm>
#include <utility>

namespace tensorbow {
namespace {

std::string HostName(int host) { return "host " + std::to_string(host); }

const char* Doing(HostRounds::Kind kind) {
  switch (kind) {
    case HostRounds::Kind::kTrained:
      return "has trained";
    case HostRounds::Kind::kFailed:
      return "has failed in a learning task";
    case HostRounds::Kind::kNoData:
      return "has no data left";
    case HostRounds::Kind::kLeft:
      return "has closed its session";
    case HostRounds::Kind::kAgrees:
      return "writes variables, starts training, or saves or loads its state";
  }
  return "";
}

}  // namespace

HostRounds::HostRounds(Hosts* hosts)
    : hosts_(hosts), behind_(hosts->size()), trained_(hosts->size()) {}

bool HostRounds::begun() const {
  const MutexLock lock(&mu_);
  return reports_ != nullptr;
}

void HostRounds::Send(const Report& report, std::function<void()> undo,
                      std::function<bool()> arrived) {
  const MutexLock lock(&mu_);
  undo_ = std::move(undo);
  arrived_ = std::move(arrived);
  votes_ = false;
  SendLocked(report);
}

void HostRounds::Vote(const Report& report, std::function<bool()> arrived) {
  const MutexLock lock(&mu_);
  undo_ = nullptr;
  arrived_ = std::move(arrived);
  votes_ = true;
  SendLocked(report);
}

bool HostRounds::counted() const {
  const MutexLock lock(&mu_);
  return counted_;
}

void HostRounds::SendLocked(const Report& report) {
  own_ = report;
  if (reports_ == nullptr) {
    reports_ = hosts_->NewSum(Hosts::Type::kInt64, int64_t{kFields} * hosts_->size());
  }
  int64_t* const all = reports_->as<int64_t>();
  std::fill_n(all, kFields * hosts_->size(), 0);
  int64_t* const mine = all + kFields * hosts_->rank();
  mine[0] = static_cast<int64_t>(report.kind);
  mine[1] = report.program;
  mine[2] = report.tasks;
  mine[3] = report.rows;
  mine[4] = hosts_->sees_rejoining() ? 1 : 0;
  reports_->Start();
  under_way_ = true;
  why_.clear();
  clear_.store(false, std::memory_order_relaxed);
}

HostRounds::Result HostRounds::Await() {
  if (clear()) return Result::kCounts;
  const MutexLock lock(&mu_);
  if (!under_way_) return result_;
  under_way_ = false;
  const std::string error = reports_->Await();
  result_ = error.empty() ? Decide() : Break(error);
  if (result_ == Result::kCounts && arrived_ != nullptr && !arrived_()) {
    result_ = Break(hosts_->error());
  }
  if (result_ != Result::kBroken) {
    progress_ = {progress_.decided + 1, result_};
    admits_ = AllSeeRejoining();
  }
  if (result_ == Result::kCounts) {
    Count();
    clear_.store(true, std::memory_order_release);
  } else {
    if (undo_ != nullptr) undo_();
    if (own_.kind == Kind::kTrained && !votes_) {
      --counts_.iterations;
      counts_.tasks -= own_.tasks;
      counts_.rows -= own_.rows;
    }
  }
  undo_ = nullptr;
  arrived_ = nullptr;
  return result_;
}

bool HostRounds::AllSeeRejoining() const {
  bool all = true;
  for (int host : hosts_->members()) {
    all &= reports_->as<int64_t>()[kFields * host + kFields - 1] != 0;
  }
  return all;
}

bool HostRounds::admits() const {
  const MutexLock lock(&mu_);
  return admits_;
}

HostRounds::Report HostRounds::ReportOf(int host) const {
  const int64_t* const fields = reports_->as<int64_t>() + kFields * host;
  return {static_cast<Kind>(fields[0]), fields[1], fields[2], fields[3]};
}

HostRounds::Result HostRounds::Break(const std::string& why) {
  why_ = why;
  hosts_->Fail(why);
  return Result::kBroken;
}

HostRounds::Result HostRounds::Break() {
  const MutexLock lock(&mu_);
  clear_.store(false, std::memory_order_relaxed);
  return result_ = Break(hosts_->error());
}

HostRounds::Result HostRounds::Decide() {
  int trained = -1, failed = -1, agrees = -1;
  for (int host : hosts_->members()) {
    const Kind kind = ReportOf(host).kind;
    if (kind == Kind::kTrained && trained < 0) trained = host;
    if (kind == Kind::kFailed && failed < 0) failed = host;
    if (kind == Kind::kAgrees && agrees < 0) agrees = host;
  }
  const int first = agrees >= 0 ? agrees : failed >= 0 ? failed : trained;
  if (first < 0) return Result::kNone;
  for (int host : hosts_->members()) {
    const Report report = ReportOf(host), other = ReportOf(first);
    const bool both_agree =
        (report.kind == Kind::kAgrees) == (other.kind == Kind::kAgrees);
    if (!both_agree) {
      return Break(HostName(host) + " " + Doing(report.kind) + " while " +
                   HostName(first) + " " + Doing(other.kind) +
                   ". All hosts have to run the same program: the same learning runs, "
                   "and the same writes between them");
    }
    if (report.program != other.program) {
      return Break(HostName(host) + " and " + HostName(first) +
                   (agrees >= 0 ? " have different variables, optimisers, options or "
                                  "numbers of learners"
                                : " execute different learning runs at the same time") +
                   ". All hosts have to run the same program with the same options");
    }
  }
  if (failed < 0) return Result::kCounts;
  MarkBehind();
  why_ = "a learning task of " + HostName(failed) +
         " has failed; its iteration is discarded on all hosts";
  return Result::kDiscarded;
}

void HostRounds::Count() {
  if (own_.kind == Kind::kAgrees) return;
  counted_ = true;
  for (int host : hosts_->members()) {
    const Report report = ReportOf(host);
    counted_ &= !votes_ || report.kind != Kind::kTrained || report.rows != kUnknown;
  }
  if (!counted_) return;
  for (int host : hosts_->members()) {
    const Kind kind = ReportOf(host).kind;
    trained_[host] = kind == Kind::kTrained;
    if (kind == Kind::kNoData) behind_[host] = true;
  }
  for (int host : hosts_->members()) {
    if (host == hosts_->rank()) continue;
    const Report report = ReportOf(host);
    counts_.tasks += report.tasks;
    counts_.rows += report.rows;
  }
  if (own_.kind != Kind::kTrained) ++counts_.iterations;
}

std::string HostRounds::why() const {
  const MutexLock lock(&mu_);
  return why_;
}

HostRounds::Progress HostRounds::progress() const {
  const MutexLock lock(&mu_);
  return progress_;
}

bool HostRounds::Resume(const Progress& last) {
  const MutexLock lock(&mu_);
  const bool decided = last.decided > progress_.decided;
  progress_ = last;
  admits_ = false;
  result_ = decided ? last.result : Result::kCounts;
  under_way_ = false;
  if (result_ != Result::kCounts) return decided;
  why_.clear();
  clear_.store(true, std::memory_order_release);
  return decided;
}

void HostRounds::SetCounts(const Counts& counts) {
  const MutexLock lock(&mu_);
  counts_ = counts;
}

void HostRounds::CountOwn() {
  const MutexLock lock(&mu_);
  ++counts_.iterations;
  counts_.tasks += own_.tasks;
  counts_.rows += std::max<int64_t>(0, own_.rows);
}

void HostRounds::AcknowledgeFailure() {
  const MutexLock lock(&mu_);
  reported_ |= result_ == Result::kBroken;
  if (under_way_ || result_ == Result::kBroken) return;
  result_ = Result::kCounts;
  why_.clear();
  clear_.store(true, std::memory_order_release);
}

bool HostRounds::HasUnreportedFailure() {
  const Result result = Await();
  const MutexLock lock(&mu_);
  return result == Result::kDiscarded || (result == Result::kBroken && !reported_);
}

bool HostRounds::Agree(int64_t what) {
  Report report{Kind::kAgrees};
  report.program = what;
  Send(report, nullptr);
  return Await() == Result::kCounts;
}

void HostRounds::MarkBehind() {
  for (int host : hosts_->members()) {
    const Report report = ReportOf(host);
    if (report.kind == Kind::kFailed && report.rows == kBehind) behind_[host] = true;
  }
}

HostRounds::Stragglers HostRounds::TakeStragglers() {
  const MutexLock lock(&mu_);
  Stragglers stragglers;
  for (int host = hosts_->size() - 1; host >= 0; --host) {
    if (trained_[host] && !behind_[host]) stragglers.leader = host;
  }
  for (int host = 0; host < hosts_->size(); ++host) {
    if (behind_[host]) stragglers.hosts.push_back(host);
    behind_[host] = false;
  }
  return stragglers;
}

bool HostRounds::behind() const {
  const MutexLock lock(&mu_);
  return behind_[hosts_->rank()];
}

HostRounds::Counts HostRounds::counts() const {
  const MutexLock lock(&mu_);
  return counts_;
}

}  // namespace tensorbow
