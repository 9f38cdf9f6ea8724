#include "cc/passes/program/average_sums.h"

#include <cstdint>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/graph/op_facts.h"
#include "cc/passes/program/row_supplies.h"
#include "tensorflow/core/framework/node_def_builder.h"

namespace tensorbow {

namespace {

namespace tf = ::tensorflow;

bool IsLinear(absl::string_view op) {
  static const auto* const ops = new absl::flat_hash_set<absl::string_view>(
      {"Identity", "Neg", "Add", "AddV2", "AddN", "Sub", "Mul", "RealDiv", "Div"});
  return ops->contains(op);
}

// Returns whether both are sums with equal exponents and shapes.
bool HaveOneForm(const RowType& a, const RowType& b) {
  return a.is(RowKind::kSum) && b.is(RowKind::kSum) && a.exponent == b.exponent &&
         a.dims.has_value() && a.dims == b.dims;
}

// Returns the only input of the linear op that is not the same on all learners. Returns
// an empty name unless it has the form of the op's output.
std::string LinearInput(const tf::NodeDef& node, const std::string& output,
                        const RowTypes& types) {
  const auto made = types.types.find(output);
  std::string sum;
  for (const std::string& input : node.input()) {
    if (input[0] == '^') continue;
    const auto type = types.types.find(Canonical(input));
    if (type == types.types.end()) return "";
    if (type->second.is(RowKind::kSame) && type->second.exponent == 0) continue;
    if (!sum.empty() || made == types.types.end() ||
        !HaveOneForm(made->second, type->second)) {
      return "";
    }
    sum = type->first;
  }
  return sum;
}

// Returns the tensor of which the written one is a linear function.
std::string SourceOf(std::string written, const ProgramGraph& program,
                     const RowTypes& types, const RunEdits& edits) {
  while (true) {
    const TensorName name = ParseTensor(written);
    const tf::NodeDef* const node = program.Find(name.node);
    if (node == nullptr || !IsLinear(node->op()) ||
        !edits.Exchangeable(name.node).ok()) {
      return written;
    }
    std::string input = LinearInput(*node, written, types);
    if (input.empty()) return written;
    written = std::move(input);
  }
}

}  // namespace

SumAverages::SumAverages(const ProgramGraph& program, const RowTypes& types,
                         bool own_batches, RunEdits* edits)
    : program_(program), types_(types), own_batches_(own_batches), edits_(edits) {
  for (const RowWrite& write : types.writes) {
    if (write.trained && write.type.is(RowKind::kSum)) writes_.insert(write.node);
  }
}

absl::Status SumAverages::Average(const std::string& tensor, const RowType& type) {
  const TensorName name = ParseTensor(tensor);
  TF_ASSIGN_OR_RETURN(const tf::DataType dtype, edits_->TypeOf(tensor));
  const std::string made = edits_->NameBeside(name, "average");
  TensorName mean = name;
  const std::string rescaled = absl::StrCat(made, "/rescaled");
  if (FactorOf(type) != 0) {
    TF_RETURN_IF_ERROR(edits_->AddRescale(rescaled, name, dtype, FactorOf(type)));
    mean = {rescaled, 0, false};
  }
  TF_RETURN_IF_ERROR(tf::NodeDefBuilder(made, kReduceGradient)
                         .Input(mean.node, mean.index, dtype)
                         .Attr("index", 0)
                         .Attr("shape", ShapeOf(type))
                         .Finalize(&edits_->Add()));
  edits_->Replace(tensor, made);
  return absl::OkStatus();
}

absl::Status SumAverages::AverageWritten(
    const absl::flat_hash_set<std::string>& exchanging) {
  for (const auto& [source, nodes] : FindSources()) {
    TF_ASSIGN_OR_RETURN(const tf::DataType dtype, edits_->TypeOf(source));
    const auto type = types_.types.find(source);
    const bool others =
        edits_->LeadsTo(source, [&](const std::string& node, bool waits) {
          return exchanging.contains(node) ||
                 (!waits && writes_.contains(node) && !nodes.contains(node));
        });
    if (others || type == types_.types.end() || !type->second.is(RowKind::kSum) ||
        !CanBeReduced(dtype) || !edits_->Exchangeable(ParseTensor(source).node).ok()) {
      continue;
    }
    TF_RETURN_IF_ERROR(Average(source, type->second));
    averaged_before_.insert(nodes.begin(), nodes.end());
  }
  for (const RowWrite& write : types_.writes) {
    if (writes_.contains(write.node) && !averaged_before(write.node)) {
      TF_RETURN_IF_ERROR(AverageBefore(write));
    }
  }
  return absl::OkStatus();
}

std::set<std::string> SumAverages::averaging_writes() const {
  std::set<std::string> averaging;
  for (const std::string& node : writes_) {
    if (!averaged_before(node)) averaging.insert(node);
  }
  return averaging;
}

tf::NodeDef* SumAverages::ReductionBefore(const std::string& write) const {
  const auto reduction = reductions_.find(write);
  return reduction == reductions_.end() ? nullptr : reduction->second;
}

tf::PartialTensorShape SumAverages::ShapeOf(const RowType& type) const {
  if (!type.dims.has_value()) return tf::PartialTensorShape();
  std::vector<int64_t> shape;
  for (Size size : *type.dims) {
    shape.push_back(types_.sizes->Number(size).value_or(-1));
  }
  return tf::PartialTensorShape(shape);
}

SumAverages::Sources SumAverages::FindSources() const {
  Sources sources;
  for (const RowWrite& write : types_.writes) {
    if (!IsAveragedHere(write) || !edits_->Exchangeable(write.node).ok()) continue;
    sources[SourceOf(WrittenBy(write), program_, types_, *edits_)].insert(write.node);
  }
  return sources;
}

bool SumAverages::IsAveragedHere(const RowWrite& write) const {
  const tf::NodeDef* const node = edits_->Node(write.node);
  return node != nullptr && write.trained && write.type.is(RowKind::kSum) &&
         FactsOf(node->op()).optimiser == OptimiserKind::kNone &&
         !absl::StrContains(node->op(), "Scatter");
}

std::string SumAverages::WrittenBy(const RowWrite& write) const {
  return Canonical(program_.Find(write.node)->input(write.input));
}

absl::Status SumAverages::AverageBefore(const RowWrite& write) {
  tf::NodeDef* const node = edits_->Node(write.node);
  if (node == nullptr) return edits_->Misplaced(write.node, "writes a sum over rows");
  if (!IsAveragedHere(write)) return absl::OkStatus();
  TF_RETURN_IF_ERROR(edits_->Exchangeable(write.node).status());
  const std::string before = WrittenBy(write);
  TF_ASSIGN_OR_RETURN(const tf::DataType dtype, edits_->TypeOf(before));
  if (!CanBeReduced(dtype)) {
    return edits_->Misplaced(
        write.node, "writes a sum over rows whose type learners cannot exchange");
  }
  const TensorName now = edits_->InputNow(*node, write.input);
  const std::string made = absl::StrCat(write.node, "/TensorBow.average");
  const auto type = types_.types.find(before);
  tf::NodeDef& reduction = edits_->Add();
  TF_RETURN_IF_ERROR(tf::NodeDefBuilder(made, kReduceGradient)
                         .Input(now.node, now.index, dtype)
                         .Attr("index", 0)
                         .Attr("shape", type == types_.types.end()
                                            ? tf::PartialTensorShape()
                                            : ShapeOf(type->second))
                         .Finalize(&reduction));
  reductions_[write.node] = &reduction;
  *node->mutable_input(write.input) = made;
  return absl::OkStatus();
}

}  // namespace tensorbow
