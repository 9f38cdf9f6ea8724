#include "cc/learner/task_recorder.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/rewrite/op_kinds.h"
#include "cc/synchroniser/synchroniser.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Ops that wait for the device to learn the shape of their result.
bool HasValueDependentShape(const std::string& op) {
  static const auto* const ops = new absl::flat_hash_set<std::string>(
      {"Where", "Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2",
       "DynamicPartition", "ListDiff", "SparseFillEmptyRows", "SparseReshape",
       "SparseToDense", "Bincount", "DenseBincount", "RaggedRange"});
  return ops->contains(op) || absl::StrContains(op, "NonMaxSuppression");
}

// Ops that decide on the host, by a value on the device, what is executed.
bool DecidesOnHost(const tf::Node& node) {
  return node.IsControlFlow() || node.IsIfNode() || node.IsWhileNode() ||
         node.IsCaseNode();
}

// What of one op cannot be recorded, or nothing.
const char* Obstacle(const tf::Node& node) {
  if (KeepsRandomState(node.def(), node.op_def())) {
    return "draws random numbers, whose state is kept on the host";
  }
  if (DecidesOnHost(node)) return "decides on the host what is executed";
  if (node.IsFunctionCall()) return "calls a function";
  if (node.IsSend() || node.IsRecv()) return "exchanges values with the CPU";
  if (HasValueDependentShape(node.type_string())) {
    return "makes a result whose shape depends on values";
  }
  return nullptr;
}

}  // namespace

std::string ObstacleToRecording(const std::vector<std::unique_ptr<tf::Graph>>& parts,
                                const std::string& accelerator) {
  std::string obstacle;
  for (const auto& part : parts) {
    for (const tf::Node* node : part->op_nodes()) {
      const char* why = Obstacle(*node);
      if (node->assigned_device_name() != accelerator && !node->IsSend() &&
          !node->IsRecv()) {
        why = "is executed on the CPU";
      }
      if (why == nullptr) continue;
      obstacle = absl::StrCat("'", node->name(), "' (", node->type_string(), ") ", why);
      // A transfer is only the consequence of something on the CPU.
      if (!node->IsSend() && !node->IsRecv()) return obstacle;
    }
  }
  return obstacle;
}

TaskRecorder::TaskRecorder(AcceleratorDevice* accelerator, std::string obstacle,
                           std::function<void(const std::string&)> refused)
    : accelerator_(accelerator), refused_(std::move(refused)) {
  if (!obstacle.empty()) Refuse(obstacle);
}

void TaskRecorder::Refuse(const std::string& why) {
  obstacle_ = why;
  if (refused_) refused_(why);
}

bool TaskRecorder::Fits(const Tensors& feeds, int64_t generation) const {
  bool fits = generation == generation_ && feeds.size() == feeds_.size();
  for (size_t i = 0; fits && i < feeds.size(); ++i) {
    fits =
        feeds[i].dtype() == feeds_[i].dtype() && feeds[i].shape() == feeds_[i].shape();
  }
  return fits;
}

absl::Status TaskRecorder::Run(const Tensors& feeds, int64_t generation,
                               const Execute& execute, Tensors* fetches) {
  if (!obstacle_.empty()) return execute(feeds, fetches);
  if (recording_ != nullptr && generation != generation_) {
    recording_.reset();  // variables have moved
    fetches_.clear();
  }
  if (recording_ == nullptr) {
    if (!Fits(feeds, generation)) {
      executed_ = 0;
      generation_ = generation;
      feeds_ = feeds;
    }
    if (executed_++ < kWarmUpTasks) return execute(feeds, fetches);
    const absl::Status recorded = Record(feeds, execute);
    if (!recorded.ok()) {
      if (absl::IsCancelled(recorded)) return recorded;
      Refuse(std::string(recorded.message()));
      return execute(feeds, fetches);
    }
  } else if (!Fits(feeds, generation)) {
    return execute(feeds, fetches);
  }
  TF_RETURN_IF_ERROR(Replay(feeds));
  *fetches = fetches_;
  return absl::OkStatus();
}

absl::Status TaskRecorder::Record(const Tensors& feeds, const Execute& execute) {
  tf::Allocator* const allocator = accelerator_->device()->GetAllocator({});
  Tensors fixed, made;
  for (const tf::Tensor& feed : feeds) {
    fixed.emplace_back(allocator, feed.dtype(), feed.shape());
    if (!fixed.back().IsInitialized()) {
      return absl::ResourceExhaustedError("no memory for a copy of the feeds");
    }
  }
  TF_ASSIGN_OR_RETURN(auto recording,
                      accelerator_->Record([&] { return execute(fixed, &made); }));
  recording_ = std::move(recording);
  feeds_ = std::move(fixed);
  fetches_ = std::move(made);
  return absl::OkStatus();
}

absl::Status TaskRecorder::Replay(const Tensors& feeds) {
  Synchroniser* const synchroniser = accelerator_->synchroniser();
  if (synchroniser != nullptr && synchroniser->set() != nullptr &&
      !synchroniser->EnterReplay(accelerator_->learner())) {
    return absl::CancelledError(
        "The iteration is discarded because another learner's task failed");
  }
  for (size_t i = 0; i < feeds.size(); ++i) {
    TF_RETURN_IF_ERROR(accelerator_->Copy(feeds[i], &feeds_[i]));
  }
  return accelerator_->Replay(recording_.get());
}

}  // namespace tensorbow
