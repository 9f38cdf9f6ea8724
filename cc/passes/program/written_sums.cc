#include "cc/passes/program/written_sums.h"

#include "absl/strings/match.h"
#include "cc/graph/op_facts.h"

namespace tensorbow {

namespace {

namespace tf = ::tensorflow;

bool IsLinear(absl::string_view op) {
  static const auto* const ops = new absl::flat_hash_set<absl::string_view>(
      {"Identity", "Neg", "Add", "AddV2", "AddN", "Sub", "Mul", "RealDiv", "Div"});
  return ops->contains(op);
}

// Returns whether both are sums with one exponent, of one shape.
bool HaveOneForm(const RowType& a, const RowType& b) {
  return a.is(RowKind::kSum) && b.is(RowKind::kSum) && a.exponent == b.exponent &&
         a.dims.has_value() && a.dims == b.dims;
}

// Returns the only input of the linear op that is not the same on all learners, if it
// has the form of the op's output; else an empty name.
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

// Returns the tensor that the written one is a linear function of.
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

std::map<std::string, absl::flat_hash_set<std::string>> WrittenSums(
    const ProgramGraph& program, const RowTypes& types, RunEdits* edits) {
  std::map<std::string, absl::flat_hash_set<std::string>> sums;
  for (const RowWrite& write : types.writes) {
    if (!write.trained || !write.type.is(RowKind::kSum)) continue;
    const tf::NodeDef* const node = edits->Node(write.node);
    if (node == nullptr || FactsOf(node->op()).optimiser != OptimiserKind::kNone ||
        absl::StrContains(node->op(), "Scatter") ||
        !edits->Exchangeable(write.node).ok()) {
      continue;
    }
    const std::string written = Canonical(program.Find(write.node)->input(write.input));
    sums[SourceOf(written, program, types, *edits)].insert(write.node);
  }
  return sums;
}

}  // namespace tensorbow
