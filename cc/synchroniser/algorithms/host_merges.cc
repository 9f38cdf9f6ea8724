#include "cc/synchroniser/algorithms/host_merges.h"

#include <algorithm>

namespace tensorbow {
namespace {

// The fields of a host's report. Each learner's updates and rows follow.
enum Field {
  kHasData,
  kLeft,
  kFixesSizes,
  kSmall,
  kWantsMerge,
  kMicros,
  kTasks,
  kRows,
  kNumFields
};
constexpr int kOfLearner = 2;

int64_t NumFields(int learners) { return kNumFields + int64_t{kOfLearner} * learners; }

}  // namespace

int64_t* HostMerges::FieldsOf(int host) {
  int64_t begin = 0;
  for (int h = 0; h < host; ++h) begin += NumFields(batches_->learners_of(h));
  return parts_->as<int64_t>() + begin;
}

void HostMerges::Fill(const Visit& visit) {
  int64_t size = 0;
  for (int h = 0; h < batches_->num_hosts(); ++h) {
    size += NumFields(batches_->learners_of(h));
  }
  if (parts_ == nullptr) {
    parts_ = rounds_->hosts()->NewSum(Hosts::Type::kInt64, size);
  }
  std::fill_n(parts_->as<int64_t>(), size, 0);
  const MegaBatches::Part part = batches_->part();
  int64_t* const fields = FieldsOf(batches_->own_host());
  fields[kHasData] = visit.kind == HostRounds::Kind::kTrained;
  fields[kLeft] = visit.kind == HostRounds::Kind::kLeft;
  fields[kFixesSizes] = part.fixes_sizes;
  fields[kSmall] = visit.small;
  fields[kWantsMerge] = visit.wants_merge;
  fields[kMicros] = part.micros;
  fields[kTasks] = visit.tasks;
  fields[kRows] = visit.rows;
  int64_t* learner = fields + kNumFields;
  for (size_t i = 0; i < part.updates.size(); ++i) {
    *learner++ = part.updates[i];
    *learner++ = part.rows[i];
  }
}

void HostMerges::Read(Outcome* outcome) {
  outcome->small = outcome->all_left = true;
  bool wants_merge = false;
  for (int h = 0; h < batches_->num_hosts(); ++h) {
    const int64_t* const fields = FieldsOf(h);
    MegaBatches::Part part;
    part.has_data = fields[kHasData] != 0;
    part.fixes_sizes = fields[kFixesSizes] != 0;
    part.micros = fields[kMicros];
    const int64_t* learner = fields + kNumFields;
    for (int i = 0; i < batches_->learners_of(h); ++i) {
      part.updates.push_back(*learner++);
      part.rows.push_back(*learner++);
    }
    batches_->SetPart(h, part);
    outcome->small &= fields[kSmall] != 0;
    wants_merge |= fields[kWantsMerge] != 0;
    outcome->all_left &= fields[kLeft] != 0;
    if (fields[kLeft] != 0) outcome->left = h;
    if (h == batches_->own_host()) continue;
    outcome->tasks_of_others += fields[kTasks];
    outcome->rows_of_others += fields[kRows];
  }
  const bool at_rest = outcome->result == HostRounds::Result::kNone;
  outcome->merges = outcome->result == HostRounds::Result::kCounts ||
                    (at_rest && wants_merge && batches_->num_updates_of_all() > 0);
}

HostMerges::Outcome HostMerges::Join(const Visit& visit) {
  Fill(visit);
  HostRounds::Report report{visit.kind, visit.program};
  rounds_->Send(report, /*undo=*/nullptr);
  parts_->Start();
  Outcome outcome;
  // Reports first: hosts that do something else make other sums.
  outcome.result = rounds_->Await();
  if (outcome.result == HostRounds::Result::kBroken) return outcome;
  if (!parts_->Await().empty()) {
    outcome.result = rounds_->Break();
    return outcome;
  }
  Read(&outcome);
  if (outcome.result == HostRounds::Result::kNone) rounds_->AcknowledgeFailure();
  return outcome;
}

}  // namespace tensorbow
