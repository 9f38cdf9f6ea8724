#include "cc/passes/program/insert_exchanges.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/node_def_builder.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Appends to `added` the nodes of `share`: `tensor` times the learner's share of rows.
absl::Status AppendShare(const TensorName& tensor, tf::DataType type,
                         const std::string& share, std::vector<tf::NodeDef>* added) {
  const std::string scale = absl::StrCat(share, "/scale");
  TF_RETURN_IF_ERROR(tf::NodeDefBuilder(scale, "TensorBowShardScale")
                         .Attr("T", type)
                         .Finalize(&added->emplace_back()));
  return tf::NodeDefBuilder(share, "RealDiv")
      .Input(tensor.node, tensor.index, type)
      .Input(scale, 0, type)
      .Finalize(&added->emplace_back());
}

}  // namespace

absl::Status InsertMeetings(const ProgramGraph& graph, const RunSpec& spec,
                            const Meetings& meetings, ProgramGraph* together) {
  static const char* const kHow[] = {"mean", "part", "sum"};
  tf::GraphDef rewritten;
  TF_RETURN_IF_ERROR(graph.Closure(spec, &rewritten));
  std::map<std::string, std::string> names;
  std::vector<tf::NodeDef> added;
  for (const auto& [tensor, meeting] : meetings) {
    const TensorName name = ParseTensor(tensor);
    const tf::NodeDef* const node = graph.Find(name.node);
    if (node == nullptr) return absl::NotFoundError(tensor);
    const tf::OpDef* op = nullptr;
    TF_RETURN_IF_ERROR(graph.functions().LookUpOpDef(node->op(), &op));
    tf::DataTypeVector types;
    TF_RETURN_IF_ERROR(tf::OutputTypesForNode(*node, *op, &types));
    names[tensor] = absl::StrCat(name.node, "/TensorBow.together.", name.index);
    const tf::DataType type = tf::BaseType(types.at(name.index));
    if (meeting.how == Meeting::How::kShare) {
      TF_RETURN_IF_ERROR(AppendShare(name, type, names[tensor], &added));
      continue;
    }
    tf::NodeDefBuilder builder(names[tensor], kMeanTogether);
    builder.Input(name.node, name.index, type)
        .Attr("how", kHow[static_cast<int>(meeting.how)]);
    if (meeting.must) builder.Attr(kMustMeet, true);
    TF_RETURN_IF_ERROR(builder.Finalize(&added.emplace_back()));
  }
  for (tf::NodeDef& node : *rewritten.mutable_node()) {
    for (std::string& input : *node.mutable_input()) {
      if (ParseTensor(input).control) continue;
      const auto found = meetings.find(Canonical(input));
      if (found == meetings.end()) continue;
      const std::set<std::string>& users = found->second.users;
      if (users.empty() || users.count(node.name()) > 0) input = names[found->first];
    }
  }
  for (tf::NodeDef& node : added) *rewritten.add_node() = std::move(node);
  return together->Extend(rewritten);
}

}  // namespace tensorbow
