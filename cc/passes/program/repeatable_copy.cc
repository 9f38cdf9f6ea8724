#include "cc/passes/program/repeatable_copy.h"

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/graph/control_flow.h"
#include "cc/graph/dataflow.h"
#include "cc/graph/op_facts.h"
#include "cc/passes/program/insert_exchanges.h"
#include "cc/passes/program/repeatable.h"
#include "tensorflow/core/framework/node_def_builder.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

constexpr char kPrefix[] = "TensorBow.proof/";  // of the copy's names

bool CanBeMoved(tf::DataType dtype) {
  return dtype == tf::DT_FLOAT || dtype == tf::DT_DOUBLE || dtype == tf::DT_HALF ||
         dtype == tf::DT_BFLOAT16;
}

class Copier {
 public:
  Copier(const ProgramGraph& program, const RunSpec& spec,
         const absl::flat_hash_set<std::string>& moved, ProofGraph* proof)
      : program_(program),
        spec_(spec),
        moved_(moved),
        proof_(proof),
        functions_(program.functions(), kPrefix, copy_.mutable_library()),
        declarations_({}, program.functions(),
                      [](absl::string_view) { return false; }) {
    *copy_.mutable_versions() = program.graph_def().versions();
  }

  absl::Status Copy(const std::vector<std::string>& wanted) {
    for (const std::string& feed : spec_.feeds) TF_RETURN_IF_ERROR(AddFeed(feed));
    how_far_ = absl::StrCat(kPrefix, "how_far");
    Add(tf::NodeDefBuilder(how_far_, "Placeholder").Attr("dtype", tf::DT_FLOAT));
    proof_->feeds.push_back(absl::StrCat(how_far_, ":0"));
    moves_ = absl::StrCat(kPrefix, "moves");
    Add(tf::NodeDefBuilder(moves_, "Cast")
            .Input(how_far_, 0, tf::DT_FLOAT)
            .Attr("DstT", tf::DT_BOOL));
    for (const std::string& tensor : wanted) {
      TF_ASSIGN_OR_RETURN(std::string copy, Resolve(Canonical(tensor), false));
      TF_ASSIGN_OR_RETURN(tf::DataType dtype, TypeOf(tensor));
      // A tensor is to be fetched by a name of the copy's own.
      const std::string name = absl::StrCat(kPrefix, "wanted/", proof_->fetches.size());
      if (dtype == tf::DT_RESOURCE) {
        TF_ASSIGN_OR_RETURN(copy, Read(tensor, absl::StrCat(name, "/read"), &dtype));
      }
      Add(tf::NodeDefBuilder(name, "Identity").Input(copy, 0, dtype));
      copy_.mutable_node()->rbegin()->set_input(0, copy);
      proof_->fetches.push_back(absl::StrCat(name, ":0"));
    }
    while (!pending_.empty()) {
      const tf::NodeDef* const node = pending_.back();
      pending_.pop_back();
      TF_RETURN_IF_ERROR(CopyNode(*node));
    }
    TF_RETURN_IF_ERROR(status_);
    return Complete();
  }

 private:
  // Makes a graph of the copy and of the variables and tables that it reads.
  absl::Status Complete() {
    absl::flat_hash_set<std::string> own;
    for (const tf::NodeDef& node : copy_.node()) own.insert(node.name());
    RunSpec read;
    for (const tf::NodeDef& node : copy_.node()) {
      for (const std::string& input : node.input()) {
        const std::string producer(ParseTensor(input).node);
        if (own.insert(producer).second) read.targets.push_back(producer);
      }
    }
    tf::GraphDef originals;
    TF_RETURN_IF_ERROR(program_.Closure(read, &originals));
    proof_->graph = std::make_unique<ProgramGraph>();
    TF_RETURN_IF_ERROR(proof_->graph->Extend(originals));
    return proof_->graph->Extend(copy_);
  }

  absl::Status Refuse(const tf::NodeDef& node, absl::string_view why) const {
    return absl::FailedPreconditionError(
        absl::StrCat("'", node.name(), "' (", node.op(), ") ", why));
  }

  // Adds a node of the copy's own.
  void Add(tf::NodeDefBuilder builder) {
    status_.Update(builder.Finalize(copy_.add_node(), /*consume=*/true));
  }

  absl::StatusOr<tf::DataType> TypeOf(const std::string& tensor) const {
    const TensorName name = ParseTensor(tensor);
    const tf::NodeDef* const node = program_.Find(name.node);
    const tf::OpDef* op = nullptr;
    if (node == nullptr) return absl::NotFoundError(tensor);
    TF_RETURN_IF_ERROR(program_.functions().LookUpOpDef(node->op(), &op));
    tf::DataTypeVector types;
    TF_RETURN_IF_ERROR(tf::OutputTypesForNode(*node, *op, &types));
    if (name.index >= static_cast<int>(types.size()))
      return absl::NotFoundError(tensor);
    return tf::BaseType(types[name.index]);
  }

  // The value of a resource variable, by a read of the copy's own.
  absl::StatusOr<std::string> Read(const std::string& handle, const std::string& name,
                                   tf::DataType* dtype) {
    const tf::NodeDef* const variable = program_.Find(ParseTensor(handle).node);
    if (variable->op() != "VarHandleOp") return Refuse(*variable, "is no variable");
    *dtype = variable->attr().at("dtype").type();
    Add(tf::NodeDefBuilder(name, "ReadVariableOp")
            .Input(variable->name(), 0, tf::DT_RESOURCE)
            .Attr("dtype", *dtype));
    const std::string value = absl::StrCat(name, ":0");
    if (!moved_.contains(variable->name())) return value;
    return Moved(*variable, value, value);
  }

  absl::Status AddFeed(const std::string& feed) {
    const std::string name = absl::StrCat(kPrefix, "feed/", proof_->feeds.size());
    TF_ASSIGN_OR_RETURN(const tf::DataType dtype, TypeOf(feed));
    Add(tf::NodeDefBuilder(name, "Placeholder").Attr("dtype", dtype));
    copies_[Canonical(feed)] = absl::StrCat(name, ":0");
    proof_->feeds.push_back(absl::StrCat(name, ":0"));
    return absl::OkStatus();
  }

  // The name in the copy of a tensor of the program. `by_reference`: whether it is used
  // as a reference to a variable.
  absl::StatusOr<std::string> Resolve(const std::string& tensor, bool by_reference) {
    const auto known = copies_.find(tensor);
    if (known != copies_.end()) return known->second;
    const TensorName name = ParseTensor(tensor);
    const tf::NodeDef* const node = program_.Find(name.node);
    const tf::OpDef* op = nullptr;
    if (node == nullptr) return absl::NotFoundError(tensor);
    TF_RETURN_IF_ERROR(program_.functions().LookUpOpDef(node->op(), &op));
    if (FactsOf(node->op()).creates_variable) {
      const bool value = op->output_arg(0).is_ref() && !by_reference;
      return value && moved_.contains(node->name()) ? Moved(*node, tensor, tensor)
                                                    : tensor;
    }
    if (node->op() == kMeanTogether) return Exchanged(*node);
    if (IsRepeatable(*node, program_.functions())) {
      if (HasSharedKernel(*node, *op)) return tensor;
    } else if (HandsReferenceOn(*op)) {
      return Resolve(Canonical(node->input(0)), by_reference);  // as before the write
    } else {
      return Refuse(*node, "cannot be executed twice");
    }
    if (IsCandidateSampler(node->op())) {
      TF_RETURN_IF_ERROR(ReplaceSampler(*node));
      return copies_.at(tensor);
    }
    if (scheduled_.insert(node->name()).second) pending_.push_back(node);
    const std::string copy = absl::StrCat(kPrefix, node->name(), ":", name.index);
    if (node->op() == "ReadVariableOp" &&
        moved_.contains(ParseTensor(node->input(0)).node) &&
        !LiesInControlFlow(program_, tensor)) {
      return Moved(*program_.Find(ParseTensor(node->input(0)).node), tensor, copy);
    }
    return copies_[tensor] = copy;
  }

  // A tensor that may be fed in the place of what learners exchange.
  absl::StatusOr<std::string> Exchanged(const tf::NodeDef& node) {
    const std::string name = absl::StrCat(kPrefix, node.name());
    const std::string tensor = absl::StrCat(name, ":0");
    copies_[Canonical(node.name())] = tensor;
    TF_ASSIGN_OR_RETURN(const std::string own,
                        Resolve(Canonical(node.input(0)), false));
    Add(tf::NodeDefBuilder(name, "PlaceholderWithDefault")
            .Input("own", 0, node.attr().at("T").type())
            .Attr("shape", tf::PartialTensorShape()));
    copy_.mutable_node()->rbegin()->set_input(0, own);
    proof_->exchanges.push_back({tensor, node.attr().at("how").s() == "part",
                                 node.attr().count(kMustMeet) > 0});
    return tensor;
  }

  // Moves `value`, of a variable, which the program knows as `tensor`.
  std::string Moved(const tf::NodeDef& variable, const std::string& tensor,
                    const std::string& value) {
    const tf::DataType dtype = variable.attr().at("dtype").type();
    if (!CanBeMoved(dtype)) return copies_[tensor] = value;
    const std::string name = absl::StrCat(kPrefix, "moved/", copies_.size());
    const auto at = [&name](absl::string_view part) {
      return absl::StrCat(name, "/", part);
    };
    tf::Tensor seed(tf::DT_INT32, {2});
    seed.flat<int32_t>()(0) = static_cast<int32_t>(copies_.size());
    seed.flat<int32_t>()(1) = 17;
    // No numbers are drawn for weights that stay where they are.
    Add(tf::NodeDefBuilder(at("switch"), "Switch")
            .Input("value", 0, dtype)
            .Input(moves_, 0, tf::DT_BOOL));
    copy_.mutable_node()->rbegin()->set_input(0, value);
    Add(tf::NodeDefBuilder(at("shape"), "Shape").Input(at("switch"), 1, dtype));
    Add(tf::NodeDefBuilder(at("seed"), "Const")
            .Attr("dtype", tf::DT_INT32)
            .Attr("value", seed));
    Add(tf::NodeDefBuilder(at("random"), "StatelessRandomNormal")
            .Input(at("shape"), 0, tf::DT_INT32)
            .Input(at("seed"), 0, tf::DT_INT32)
            .Attr("dtype", dtype));
    Add(tf::NodeDefBuilder(at("how_far"), "Cast")
            .Input(how_far_, 0, tf::DT_FLOAT)
            .Attr("DstT", dtype));
    Add(tf::NodeDefBuilder(at("step"), "Mul")
            .Input(at("random"), 0, dtype)
            .Input(at("how_far"), 0, dtype));
    Add(tf::NodeDefBuilder(at("sum"), "AddV2")
            .Input(at("step"), 0, dtype)
            .Input(at("switch"), 1, dtype));
    using Output = tf::NodeDefBuilder::NodeOut;
    Add(tf::NodeDefBuilder(name, "Merge")
            .Input({Output(at("switch"), 0, dtype), Output(at("sum"), 0, dtype)}));
    return copies_[tensor] = absl::StrCat(name, ":0");
  }

  // The same classes every time, spread over all there are.
  absl::Status ReplaceSampler(const tf::NodeDef& node) {
    const int64_t count = node.attr().at("num_sampled").i();
    const auto range = node.attr().find("range_max");
    const int64_t classes = range == node.attr().end() ? count : range->second.i();
    tf::Tensor sampled(tf::DT_INT64, {count}), expected(tf::DT_FLOAT, {count});
    for (int64_t i = 0; i < count; ++i) {
      sampled.flat<int64_t>()(i) = i * classes / count;
      expected.flat<float>()(i) = 1;
    }
    TF_ASSIGN_OR_RETURN(const std::string truths,
                        Resolve(Canonical(node.input(0)), false));
    const std::string name = absl::StrCat(kPrefix, node.name());
    Add(tf::NodeDefBuilder(absl::StrCat(name, "/sampled"), "Const")
            .Attr("dtype", tf::DT_INT64)
            .Attr("value", sampled));
    Add(tf::NodeDefBuilder(absl::StrCat(name, "/expected"), "Const")
            .Attr("dtype", tf::DT_FLOAT)
            .Attr("value", expected));
    Add(tf::NodeDefBuilder(absl::StrCat(name, "/cast"), "Cast")
            .Input("truths", 0, tf::DT_INT64)
            .Attr("DstT", tf::DT_FLOAT));
    copy_.mutable_node()->rbegin()->set_input(0, truths);
    Add(tf::NodeDefBuilder(absl::StrCat(name, "/true"), "OnesLike")
            .Input(absl::StrCat(name, "/cast"), 0, tf::DT_FLOAT));
    copies_[absl::StrCat(node.name(), ":0")] = absl::StrCat(name, "/sampled:0");
    copies_[absl::StrCat(node.name(), ":1")] = absl::StrCat(name, "/true:0");
    copies_[absl::StrCat(node.name(), ":2")] = absl::StrCat(name, "/expected:0");
    return absl::OkStatus();
  }

  // Whether the copy of a node waits for `earlier`, as it should (constants belong to a
  // branch or a loop by that, assertions are part of what is to be shown): whether all
  // that it is computed from can be copied.
  bool KeepsWaitingFor(const tf::NodeDef& earlier) {
    const auto [known, added] = waited_for_.emplace(earlier.name(), true);  // in cycles
    if (!added) return known->second;
    bool clean = FactsOf(earlier.op()).creates_variable ||
                 IsRepeatable(earlier, program_.functions());
    for (const std::string& input : earlier.input()) {
      const TensorName name = ParseTensor(input);
      if (!clean || name.control) break;
      if (copies_.count(absl::StrCat(name.node, ":", name.index)) > 0) continue;
      const tf::NodeDef* const producer = program_.Find(name.node);
      clean = producer != nullptr && KeepsWaitingFor(*producer);
    }
    return waited_for_[earlier.name()] = clean;
  }

  absl::Status CopyNode(const tf::NodeDef& node) {
    tf::NodeDef copy = node;
    copy.set_name(absl::StrCat(kPrefix, node.name()));
    copy.clear_device();
    copy.clear_input();
    copy.mutable_attr()->erase("_class");
    const std::vector<Input> inputs = declarations_.Inputs(node);
    size_t index = 0;
    for (const std::string& input : node.input()) {
      const TensorName name = ParseTensor(input);
      if (!name.control) {
        const bool reference = inputs.at(index++).declaration->is_ref();
        TF_ASSIGN_OR_RETURN(const std::string tensor,
                            Resolve(Canonical(input), reference));
        copy.add_input(tensor);
        continue;
      }
      const tf::NodeDef* const earlier = program_.Find(name.node);
      if (earlier == nullptr || FactsOf(earlier->op()).creates_variable ||
          IsCandidateSampler(earlier->op()) || !KeepsWaitingFor(*earlier)) {
        continue;
      }
      const tf::OpDef* op = nullptr;
      TF_RETURN_IF_ERROR(program_.functions().LookUpOpDef(earlier->op(), &op));
      if (HasSharedKernel(*earlier, *op)) continue;
      if (scheduled_.insert(earlier->name()).second) pending_.push_back(earlier);
      copy.add_input(absl::StrCat("^", kPrefix, earlier->name()));
    }
    TF_RETURN_IF_ERROR(functions_.MakeRepeatable(&copy));
    for (tf::NodeDef& made : MakeConstant(&copy)) {
      *copy_.add_node() = std::move(made);
    }
    *copy_.add_node() = std::move(copy);
    return absl::OkStatus();
  }

  const ProgramGraph& program_;
  const RunSpec& spec_;
  const absl::flat_hash_set<std::string>& moved_;
  ProofGraph* const proof_;
  tf::GraphDef copy_;
  RepeatableFunctions functions_;
  const Dataflow declarations_;
  std::string how_far_;  // the scalar that weights are moved by
  std::string moves_;    // whether it is not 0
  absl::flat_hash_map<std::string, std::string> copies_;  // tensors, by the program's
  std::set<std::string> scheduled_;
  std::map<std::string, bool> waited_for_;
  std::vector<const tf::NodeDef*> pending_;
  absl::Status status_;
};

}  // namespace

absl::Status BuildProofGraph(const ProgramGraph& program, const RunSpec& spec,
                             const std::vector<std::string>& wanted,
                             const absl::flat_hash_set<std::string>& moved,
                             ProofGraph* proof) {
  *proof = ProofGraph();
  return Copier(program, spec, moved, proof).Copy(wanted);
}

}  // namespace tensorbow
