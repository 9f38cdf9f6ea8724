#include "cc/bindings/row_types.h"

#include <pybind11/stl.h>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cc/analysis/row_types/row_types.h"
#include "cc/bindings/errors.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace tensorbow {

namespace py = ::pybind11;
namespace tf = ::tensorflow;

namespace {

using Names = std::vector<std::string>;

const char* NameOf(RowKind kind) {
  static const char* const names[] = {"untyped", "unknown",  "same",  "rows", "sum",
                                      "max",     "min",      "all",   "any",  "zero",
                                      "handle",  "sizes",    "axes",  "list", "slots",
                                      "slotted", "of_slots", "blocks"};
  return names[static_cast<int>(kind)];
}

const char* NameOf(RowNeed::Kind kind) {
  static const char* const names[] = {"rescale", "gather",  "count",    "moments",
                                      "draw",    "whole",   "all_rows", "own_rows",
                                      "assumed", "two_rows"};
  return names[static_cast<int>(kind)];
}

// Returns a number as terms: coefficient, and its symbols with their powers; None if
// unknown. Symbols of rows start with '#': "#rows" are the fed ones.
py::object NumberOf(const SizeTable& sizes, Size size) {
  if (!size.known()) return py::none();
  py::list terms;
  for (const auto& [powers, coefficient] : sizes.Terms(size)) {
    py::list factors;
    for (const auto& [symbol, power] : powers) {
      factors.append(py::make_tuple(sizes.NameOf(symbol), power));
    }
    terms.append(py::make_tuple(coefficient, factors));
  }
  return terms;
}

py::object NumbersOf(const SizeTable& sizes, const std::optional<Sizes>& numbers) {
  if (!numbers.has_value()) return py::none();
  py::list list;
  for (Size size : *numbers) list.append(NumberOf(sizes, size));
  return list;
}

// Returns "fed", "any", ("chosen", name), ("repeated", times, base) or ("concatenated",
// pieces).
py::object PartOf(const SizeTable& sizes, Part part) {
  const SizeTable::PartInfo& info = sizes.Info(part);
  using Kind = SizeTable::PartInfo::Kind;
  switch (info.kind) {
    case Kind::kFed:
      return py::str("fed");
    case Kind::kAny:
      return py::str("any");
    case Kind::kChosen:
      return py::make_tuple("chosen", sizes.ToString(part));
    case Kind::kRepeated:
      return py::make_tuple("repeated", NumberOf(sizes, info.by),
                            PartOf(sizes, info.base));
    case Kind::kConcatenated:
      break;
  }
  py::list pieces;
  for (const auto& [piece, size] : info.pieces) {
    pieces.append(py::make_tuple(PartOf(sizes, piece), NumberOf(sizes, size)));
  }
  return py::make_tuple("concatenated", pieces);
}

py::dict FactsOf(const RowType& type, const SizeTable& sizes) {
  py::dict facts;
  facts["kind"] = NameOf(type.kind);
  facts["exponent"] = type.exponent;
  facts["text"] = Describe(type, sizes);
  facts["numbers"] = NumbersOf(sizes, type.numbers);
  facts["dims"] = NumbersOf(sizes, type.dims);
  facts["own"] = type.own.kind != OwnPlaces::Kind::kNone;
  if (type.is(RowKind::kRows)) {
    facts["axis"] = type.axis;
    facts["part"] = PartOf(sizes, type.part);
  }
  return facts;
}

py::dict TypeRowsOf(
    const py::bytes& graph, const RunSpec& spec, const Names& trainable,
    const std::vector<std::pair<std::string, std::optional<int>>>& divided,
    const std::map<std::string, int>& whole, const std::vector<Names>& sparse,
    bool gathers) {
  tf::GraphDef definition;
  if (!definition.ParseFromString(std::string(graph))) {
    throw py::value_error("Got bytes that are no GraphDef");
  }
  ProgramGraph program;
  RaiseIfError(program.Extend(definition));
  RowsOfRun rows;
  for (const auto& [tensor, rank] : divided) rows.feeds.push_back({tensor, true, rank});
  for (const auto& [tensor, rank] : whole) rows.feeds.push_back({tensor, false, rank});
  for (const Names& parts : sparse)
    rows.sparse.push_back({parts[0], parts[1], parts[2]});
  auto typed =
      TypeRows(program, spec, {trainable.begin(), trainable.end()}, rows, gathers);
  RaiseIfError(typed.status());
  const SizeTable& sizes = *typed->sizes;
  py::dict types;
  for (const auto& [tensor, type] : typed->types) {
    if (type.typed()) types[py::str(tensor)] = FactsOf(type, sizes);
  }
  py::list needs, writes;
  for (const RowNeed& need : typed->needs) {
    needs.append(py::dict(py::arg("kind") = NameOf(need.kind),
                          py::arg("node") = need.node, py::arg("input") = need.input,
                          py::arg("exponent") = need.exponent,
                          py::arg("axis") = need.axis));
  }
  for (const RowWrite& write : typed->writes) {
    writes.append(
        py::dict(py::arg("node") = write.node, py::arg("variable") = write.variable,
                 py::arg("input") = write.input, py::arg("trained") = write.trained,
                 py::arg("type") = FactsOf(write.type, sizes)));
  }
  py::dict facts;
  facts["types"] = types;
  facts["exchanges"] = typed->exchanges;
  facts["needs"] = needs;
  facts["writes"] = writes;
  facts["unknown"] = py::none();
  if (typed->unknown != nullptr) {
    facts["unknown"] =
        py::make_tuple(typed->unknown->op, typed->unknown->node, typed->unknown->text);
  }
  return facts;
}

}  // namespace

void DefineRowTypes(py::module_* module) {
  module->def(
      "type_rows",
      [](const py::bytes& graph, Names feeds, Names fetches, Names targets,
         const Names& trainable,
         const std::vector<std::pair<std::string, std::optional<int>>>& divided,
         const std::map<std::string, int>& whole, const std::vector<Names>& sparse,
         bool gathers) {
        return TypeRowsOf(graph,
                          {std::move(feeds), std::move(fetches), std::move(targets)},
                          trainable, divided, whole, sparse, gathers);
      },
      py::arg("graph"), py::kw_only(), py::arg("feeds"), py::arg("fetches"),
      py::arg("targets"), py::arg("trainable"), py::arg("divided"), py::arg("whole"),
      py::arg("sparse"), py::arg("gathers") = true);
}

}  // namespace tensorbow
