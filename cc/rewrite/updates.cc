#include "cc/rewrite/updates.h"

#include "cc/rewrite/run_analysis.h"
#include "tensorflow/core/framework/types.h"

namespace tensorbow {

namespace tf = ::tensorflow;

tf::Node* OnlyUpdate(const tf::Node& variable) {
  tf::Node* update = nullptr;
  for (const tf::Edge* edge : variable.out_edges()) {
    if (edge->IsControlEdge() || !edge->dst()->IsOp()) continue;
    tf::Node* const user = edge->dst();
    const bool resource = variable.output_type(0) == tf::DT_RESOURCE;
    const bool reads = resource ? OnlyReadsResource(user->type_string())
                                : !tf::IsRefType(user->input_type(edge->dst_input()));
    if (reads) continue;
    if (update != nullptr || edge->dst_input() != 0) return nullptr;
    update = user;
  }
  if (update == nullptr) return nullptr;
  // What takes the reference that the update hands on may write it too.
  for (const tf::Edge* edge : update->out_edges()) {
    if (edge->IsControlEdge() || !edge->dst()->IsOp()) continue;
    if (tf::IsRefType(edge->dst()->input_type(edge->dst_input()))) return nullptr;
  }
  return update;
}

}  // namespace tensorbow
