#include "cc/training/division.h"

#include <algorithm>
#include <utility>

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

constexpr int64_t kIterationsBetweenProofs = 100;
// How far weights are moved in the first proof. Small beside what they are where they
// have been initialised, much where they are zero.
constexpr double kHowFar = 0.01;
constexpr int kMostShards = 4;  // bounds the memory of a proof

bool HasSingleRow(const FeedPlan& plan) {
  return std::any_of(plan.tasks.begin(), plan.tasks.end(),
                     [](const FeedPlan::Rows& rows) { return rows.count() == 1; });
}

}  // namespace

bool Refuses(const Verdict& verdict, const FeedPlan& plan) {
  return !verdict.divides() ||
         (verdict.kind == Verdict::Kind::kUnproven && !plan.doubt.empty());
}

const Divisions::Entry* Divisions::Lookup(const FeedPlan& plan) const {
  const bool single_row = HasSingleRow(plan);
  for (const auto& entry : entries_) {
    if (entry->single_row == single_row && entry->divided == plan.divided) {
      return entry.get();
    }
  }
  return nullptr;
}

Divisions::Entry* Divisions::Lookup(const FeedPlan& plan) {
  return const_cast<Entry*>(std::as_const(*this).Lookup(plan));
}

const Verdict* Divisions::Find(const FeedPlan& plan) const {
  const Entry* const entry = Lookup(plan);
  return entry == nullptr ? nullptr : &entry->verdict;
}

bool Divisions::Due(const FeedPlan& plan, int64_t iterations) const {
  const Entry* const entry = Lookup(plan);
  return entry == nullptr || (entry->next >= 0 && iterations >= entry->next);
}

const Verdict& Divisions::Prove(const LearnerGroup& learners,
                                const std::vector<tf::Tensor>& feeds,
                                const FeedPlan& plan, int num_learners,
                                int64_t batch_size, int64_t iterations) {
  if (Lookup(plan) == nullptr) {
    entries_.push_back(std::make_unique<Entry>());
    entries_.back()->divided = plan.divided;
    entries_.back()->single_row = HasSingleRow(plan);
    entries_.back()->first = iterations;
  }
  Entry& entry = *Lookup(plan);
  ++entry.proofs;
  entry.news = true;
  if (proof_ == nullptr) {
    entry.verdict.why = why_none_;
    entry.next = -1;
    return entry.verdict;
  }
  ProofOptions options;
  const int64_t tasks = static_cast<int64_t>(plan.tasks.size());
  options.num_shards = static_cast<int>(
      batch_size > 0 ? 2 : std::min<int64_t>({tasks, num_learners, kMostShards}));
  options.num_shards = std::max(2, options.num_shards);
  if (batch_size > 0) options.most_rows = std::max<int64_t>(2, batch_size);
  options.how_far = entry.proofs == 1 ? kHowFar : 0;
  absl::StatusOr<Verdict> found = proof_->Prove(learners, feeds, plan, options);
  const bool nothing = !found.ok() || found->kind == Verdict::Kind::kUnproven;
  if (nothing && options.how_far > 0) {
    options.how_far = 0;
    found = proof_->Prove(learners, feeds, plan, options);
  }
  bool determined = false;
  if (!found.ok()) {
    entry.verdict.kind = Verdict::Kind::kUnproven;
    entry.verdict.why = std::string(found.status().message());
  } else if (entry.proofs > 1 && entry.verdict.greatest > 0 &&
             found->greatest <= kNegligible * entry.verdict.greatest) {
    // The program has converged: what is left of its gradients is rounding.
    determined = true;
  } else if (found->kind != Verdict::Kind::kUnproven || entry.proofs == 1) {
    entry.verdict = *std::move(found);
    determined = entry.verdict.determined;
  }
  // Where nothing could be told, soon; then less and less often.
  const int64_t last = entry.first + kIterationsBetweenProofs;
  const int64_t soon = iterations + std::max<int64_t>(1, iterations - entry.first);
  if (iterations >= last) {
    entry.next = -1;
  } else {
    entry.next = determined ? last : std::min(last, soon);
  }
  const bool over = std::all_of(entries_.begin(), entries_.end(),
                                [](const auto& e) { return e->next < 0; });
  if (over) proof_->Release();
  return entry.verdict;
}

bool Divisions::TestAndClearNews(const FeedPlan& plan) {
  Entry* const entry = Lookup(plan);
  return entry != nullptr && std::exchange(entry->news, false);
}

void Divisions::RefuseAdjustments(const std::string& why) {
  for (const auto& entry : entries_) {
    if (entry->verdict.adjustments == Adjustments()) continue;
    entry->verdict.kind = Verdict::Kind::kNotSound;
    entry->verdict.why = why;
    entry->news = true;
    entry->next = -1;
  }
}

}  // namespace tensorbow
