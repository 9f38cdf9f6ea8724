#include "cc/graph/writers.h"

#include "cc/graph/op_facts.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Returns the ops that change the reference variable.
std::vector<const tf::Node*> ReferenceWritersOf(const tf::Node& variable) {
  const NodeSet users = Downstream({&variable}, [](const tf::Edge& edge) {
    return !edge.IsControlEdge() &&
           tf::IsRefType(edge.src()->output_type(edge.src_output())) &&
           tf::IsRefType(edge.dst()->input_type(edge.dst_input()));
  });
  std::vector<const tf::Node*> writers;
  for (const tf::Node* user : users) {
    const bool passes = user->IsControlFlow() || user->IsIdentity();
    if (user != &variable && !passes) writers.push_back(user);
  }
  return writers;
}

}  // namespace

bool VariableWriters::MayWrite(const tf::Node& node, const NodeSet& users) {
  const std::vector<Call> calls = CallsOf(node.def(), functions_);
  for (const Call& call : calls) {
    const std::vector<Effects>& arguments = summaries_.Of(call.function).roots;
    for (const tf::Edge* edge : node.in_edges()) {
      if (edge->IsControlEdge() || users.count(edge->src()) == 0) continue;
      const int argument = edge->dst_input() - call.first_argument;
      if (argument < 0 || argument >= static_cast<int>(arguments.size())) continue;
      if (arguments[argument].written) return true;
    }
  }
  return calls.empty();
}

std::vector<const tf::Node*> VariableWriters::Of(const tf::Node& variable) {
  if (variable.output_type(0) != tf::DT_RESOURCE) return ReferenceWritersOf(variable);
  NodeSet users = Downstream({&variable}, [](const tf::Edge& edge) {
    return !edge.IsControlEdge() &&
           edge.src()->output_type(edge.src_output()) == tf::DT_RESOURCE;
  });
  users.insert(&variable);
  std::vector<const tf::Node*> writers;
  for (const tf::Node* user : users) {
    if (user != &variable && !FactsOf(user->type_string()).only_reads_resource &&
        !user->IsControlFlow() && !user->IsIdentity() && MayWrite(*user, users)) {
      writers.push_back(user);
    }
  }
  return writers;
}

}  // namespace tensorbow
