#include "cc/graph/program_graph.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/versions.pb.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

void AppendJoined(const std::vector<std::string>& names, char end, std::string* key) {
  for (const std::string& name : names) {
    key->append(name);
    key->push_back(',');
  }
  key->push_back(end);
}

}  // namespace

std::string KeyOf(const RunSpec& spec) {
  std::string key;
  AppendJoined(spec.feeds, '>', &key);
  AppendJoined(spec.fetches, '/', &key);
  AppendJoined(spec.targets, '.', &key);
  return key;
}

TensorName ParseTensor(absl::string_view name) {
  TensorName tensor;
  if (!name.empty() && name[0] == '^') {
    tensor.control = true;
    tensor.node = name.substr(1);
    return tensor;
  }
  const size_t colon = name.rfind(':');
  tensor.node = name;
  if (colon != absl::string_view::npos &&
      absl::SimpleAtoi(name.substr(colon + 1), &tensor.index)) {
    tensor.node = name.substr(0, colon);
  }
  return tensor;
}

std::string Canonical(absl::string_view tensor) {
  const TensorName name = ParseTensor(tensor);
  return absl::StrCat(name.node, ":", name.index);
}

absl::flat_hash_set<std::string> FeedsOf(const RunSpec& spec) {
  absl::flat_hash_set<std::string> feeds;
  for (const std::string& feed : spec.feeds) feeds.insert(Canonical(feed));
  return feeds;
}

ProgramGraph::ProgramGraph()
    : functions_(tf::OpRegistry::Global(), tf::FunctionDefLibrary()) {}

absl::Status ProgramGraph::Extend(const tf::GraphDef& extension) {
  TF_RETURN_IF_ERROR(functions_.AddLibrary(extension.library()));
  if (extension.has_versions()) {
    *graph_.mutable_versions() = extension.versions();
  }
  for (const tf::NodeDef& node : extension.node()) {
    index_[node.name()] = graph_.node_size();
    *graph_.add_node() = node;
  }
  return absl::OkStatus();
}

const tf::NodeDef* ProgramGraph::Find(absl::string_view node) const {
  const auto it = index_.find(node);
  return it == index_.end() ? nullptr : &graph_.node(it->second);
}

absl::Status ProgramGraph::Reach(const RunSpec& spec, bool cut_at_feeds,
                                 std::vector<int>* nodes) const {
  const absl::flat_hash_set<std::string> feeds = FeedsOf(spec);
  std::vector<bool> seen(graph_.node_size(), false);
  std::vector<int> pending;
  auto visit = [&](absl::string_view node, absl::string_view wanted_for) {
    const auto it = index_.find(node);
    if (it == index_.end()) {
      return absl::NotFoundError(
          absl::StrCat(wanted_for, ": node '", node, "' is not in the graph"));
    }
    if (!seen[it->second]) {
      seen[it->second] = true;
      pending.push_back(it->second);
    }
    return absl::OkStatus();
  };

  for (const std::string& feed : spec.feeds) {
    if (!cut_at_feeds) TF_RETURN_IF_ERROR(visit(ParseTensor(feed).node, feed));
  }
  auto visit_tensor = [&](const TensorName& tensor, absl::string_view wanted_for) {
    if (cut_at_feeds && !tensor.control &&
        feeds.contains(absl::StrCat(tensor.node, ":", tensor.index))) {
      return absl::OkStatus();
    }
    return visit(tensor.node, wanted_for);
  };
  for (const std::string& fetch : spec.fetches) {
    TF_RETURN_IF_ERROR(visit_tensor(ParseTensor(fetch), fetch));
  }
  for (const std::string& target : spec.targets) {
    TF_RETURN_IF_ERROR(visit(ParseTensor(target).node, target));
  }
  while (!pending.empty()) {
    const tf::NodeDef& node = graph_.node(pending.back());
    pending.pop_back();
    for (const std::string& input : node.input()) {
      TF_RETURN_IF_ERROR(visit_tensor(ParseTensor(input), node.name()));
    }
  }
  for (int i = 0; i < graph_.node_size(); ++i) {
    if (seen[i]) nodes->push_back(i);
  }
  return absl::OkStatus();
}

absl::Status ProgramGraph::Needed(const RunSpec& spec,
                                  std::vector<const tf::NodeDef*>* nodes) const {
  std::vector<int> indices;
  TF_RETURN_IF_ERROR(Reach(spec, /*cut_at_feeds=*/true, &indices));
  nodes->clear();
  for (int i : indices) nodes->push_back(&graph_.node(i));
  return absl::OkStatus();
}

absl::Status ProgramGraph::Closure(const RunSpec& spec, tf::GraphDef* closure) const {
  std::vector<int> indices;
  TF_RETURN_IF_ERROR(Reach(spec, /*cut_at_feeds=*/false, &indices));
  closure->Clear();
  for (int i : indices) *closure->add_node() = graph_.node(i);
  *closure->mutable_versions() = graph_.versions();
  *closure->mutable_library() = functions_.ToProto();
  return absl::OkStatus();
}

}  // namespace tensorbow
