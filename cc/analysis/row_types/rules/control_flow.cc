// Conditionals, loops, calls, and their containers of values: stacks and lists.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/analysis/row_types/laws.h"
#include "cc/analysis/row_types/rule.h"

namespace tensorbow {

namespace {

constexpr int kMostRounds = 12;  // of a loop's body, until its types are stable

RowType Condition(OpView& op, int i, const RowType& type) {
  const RowType flat = op.Flat(i, type);
  if (flat.is(RowKind::kSame) || flat.unknown() || !flat.typed()) return flat;
  return op.Unknown(
      absl::StrCat("has a condition that is ", Describe(flat, op.sizes())));
}

Types Switch(OpView& op, Types in) {
  const RowType condition = Condition(op, 1, in[1]);
  if (condition.unknown()) return {condition};
  return {in[0]};
}

// Types one of the inputs, some of which may have no type yet.
Types Merge(OpView& op, Types in) {
  std::optional<int> exponent;  // as a sum, if there is one
  bool sums = false;
  for (const RowType& type : in) sums |= type.is(RowKind::kSum);
  for (size_t i = 0; i < in.size(); ++i) {
    RowType& type = in[i];
    if (!type.is(RowKind::kSame) && !type.is(RowKind::kSum) &&
        !type.is(RowKind::kRows)) {
      continue;
    }
    const int as_sum = sums && type.is(RowKind::kSame) ? 1 : 0;
    if (!exponent.has_value()) exponent = type.exponent + as_sum;
    if (*exponent != type.exponent + as_sum) {
      type = op.Rescaled(static_cast<int>(i), type, *exponent - as_sum);
    }
  }
  RowType merged;
  for (RowType& type : in) {
    if (!type.typed()) continue;
    const bool alone = std::all_of(in.begin(), in.end(), [&](const RowType& other) {
      return !other.typed() || other.numbers == type.numbers;
    });
    if (in.size() > 1 && !alone) type.numbers.reset();
    merged = Join(op, merged, type);
  }
  if (!merged.typed()) return {};
  return {merged, Make(RowKind::kSame, Sizes{})};
}

std::string FunctionOf(const OpView& op, absl::string_view attribute) {
  return op.Attr<tensorflow::NameAttrList>(attribute, {}).name();
}

Types FunctionCall(OpView& op, Types in) {
  return op.Call(FunctionOf(op, "f"), in, "");
}

Types If(OpView& op, Types in) {
  const RowType condition = Condition(op, 0, in[0]);
  if (condition.unknown()) return {condition};
  std::vector<std::string> branches;
  if (absl::StrContains(op.op(), "If")) {
    branches = {FunctionOf(op, "then_branch"), FunctionOf(op, "else_branch")};
  } else {
    for (const auto& branch :
         op.Attr<std::vector<tensorflow::NameAttrList>>("branches", {})) {
      branches.push_back(branch.name());
    }
  }
  const Types arguments(in.begin() + 1, in.end());
  Types joined;
  for (size_t k = 0; k < branches.size(); ++k) {
    const Types outputs = op.Call(branches[k], arguments, absl::StrCat(k, "/"));
    joined.resize(outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      joined[i] = Join(op, joined[i], outputs[i]);
    }
  }
  return joined;
}

// Returns whether the number is the symbol of this output in any iteration.
bool IsOwnSymbol(const OpView& op, const Sizes& numbers, int k) {
  return numbers.size() == 1 &&
         numbers[0] == op.sizes().Open(absl::StrCat(op.path(), ":", k, ":0"));
}

Types While(OpView& op, Types in) {
  for (size_t k = 0; k < in.size(); ++k) {
    RowType& type = in[k];
    if (!type.is(RowKind::kSame) || !type.numbers.has_value() ||
        type.numbers->size() != 1) {
      continue;
    }
    type.numbers = Sizes{op.sizes().Open(absl::StrCat(op.path(), ":", k, ":0"))};
    if (type.exponent != 0 || type.of_all_rows) type.numbers.reset();
  }
  RowType test;
  for (int round = 0;; ++round) {
    if (round == kMostRounds)
      return {op.Unknown("has types that change with each iteration")};
    const Types tests = op.Call(FunctionOf(op, "cond"), in, "cond/");
    test = tests.empty() ? RowType() : tests[0];
    const Types outputs = op.Call(FunctionOf(op, "body"), in, "body/");
    Types next = in;
    for (size_t k = 0; k < in.size() && k < outputs.size(); ++k) {
      RowType output = outputs[k];
      if (in[k].is(RowKind::kSame) && output.is(RowKind::kSame) &&
          in[k].numbers != output.numbers) {
        const bool any = in[k].numbers.has_value() &&
                         IsOwnSymbol(op, *in[k].numbers, static_cast<int>(k)) &&
                         output.exponent == 0 && !output.of_all_rows;
        output.numbers = any ? in[k].numbers : std::nullopt;
      }
      next[k] = Join(op, in[k], output);
    }
    if (next == in) break;
    in = std::move(next);
  }
  if (test.unknown()) return {test};
  if (!test.is(RowKind::kSame) || test.exponent != 0) {
    return {op.Unknown(
        absl::StrCat("has a loop condition that is ", Describe(test, op.sizes())))};
  }
  return in;
}

bool CountsFedRowsOnly(const SizeTable& sizes, const Sizes& numbers) {
  const SizeTable::Symbol fed = sizes.Info(kFedRows).symbol;
  return std::all_of(numbers.begin(), numbers.end(), [&](Size number) {
    if (!number.known()) return false;
    for (const auto& [powers, coefficient] : sizes.Terms(number)) {
      for (const auto& [symbol, power] : powers) {
        if (symbol != fed) return false;
      }
    }
    return true;
  });
}

// Types a stored value: its numbers may be those of another iteration.
RowType Kept(const OpView& op, const RowType& type) {
  const bool numbers = type.is(RowKind::kSame) || type.is(RowKind::kSizes);
  if (!numbers || !type.numbers.has_value() ||
      CountsFedRowsOnly(op.sizes(), *type.numbers)) {
    return type;
  }
  return type.WithoutNumbers();
}

Types Push(OpView& op, Types in) {
  RowType& kept = op.StackOf(in[0].variable);
  kept = Join(op, kept, in[1]);
  return {in[1]};
}

Types Pop(OpView& op, Types in) {
  const RowType& kept = op.StackOf(in[0].variable);
  if (!kept.typed()) return {};
  return {Kept(op, kept)};
}

RowType ListOf(const RowType* element) {
  RowType list = Make(RowKind::kList);
  if (element != nullptr && element->typed()) {
    list.element = std::make_shared<RowType>(*element);
  }
  return list;
}

RowType ElementOf(const RowType& list) {
  if (list.unknown()) return list;
  if (list.element != nullptr) return *list.element;
  return list.derivative > 0 ? Make(RowKind::kZero) : RowType();
}

RowType Added(OpView& op, const RowType& list, const RowType& element) {
  if (list.unknown()) return list;
  const RowType before = list.element == nullptr ? RowType() : *list.element;
  const RowType joined = Join(op, before, element);
  RowType added = list;
  added.element = std::make_shared<RowType>(joined);
  return added;
}

// Returns the type of an element of a tensor that becomes a list.
RowType WithoutFront(OpView& op, const RowType& type) {
  if (!type.typed() || type.unknown()) return type;
  if (type.is(RowKind::kRows) && type.axis == 0) {
    return op.Unknown("takes the rows apart one by one");
  }
  RowType element = type.Plain();
  if (element.dims.has_value() && !element.dims->empty()) {
    element.dims->erase(element.dims->begin());
  }
  if (element.is(RowKind::kRows)) --element.axis;
  element.uniform = Uniform::kNo;
  return element;
}

Types WithFront(OpView& op, const RowType& element) {
  if (!element.typed()) return {};
  if (element.unknown()) return {element};
  if (element.own.kind != OwnPlaces::Kind::kNone) {
    return {op.Unknown("computes with row numbers")};
  }
  RowType type = element.Plain();
  if (type.dims.has_value()) type.dims->insert(type.dims->begin(), kUnknownSize);
  if (type.is(RowKind::kRows)) ++type.axis;
  type.uniform = Uniform::kNo;
  return {type};
}

Types NewList(OpView& op, Types in) { return {ListOf(nullptr)}; }

Types Optional(OpView& op, Types in) {
  if (in.size() > 1) return {op.Unknown("has no rule")};
  return {ListOf(in.empty() ? nullptr : &in[0])};
}

// Makes the handle of an array's gradients, and their flow.
Types ArrayGradient(OpView& op, Types in) {
  RowType gradients = ListOf(nullptr);
  gradients.derivative = in[0].derivative + 1;
  return {gradients, gradients};
}

// Returns the elements that a flow has put into the array of a handle.
RowType Elements(OpView& op, const RowType& handle, const RowType& flow) {
  if (!flow.typed() || flow.unknown()) return flow;
  if (flow.is(RowKind::kList) && flow.derivative > handle.derivative) {
    return op.Unknown("uses an array along the flow of its gradients");
  }
  if (flow.is(RowKind::kList) && flow.derivative == handle.derivative) return flow;
  RowType empty = ListOf(nullptr);
  empty.derivative = handle.derivative;
  return empty;
}

Types ArrayWrite(OpView& op, Types in) {
  return {Added(op, Elements(op, in[0], in[3]), in[2])};
}
Types ListSet(OpView& op, Types in) { return {Added(op, in[0], in[2])}; }
Types ListPush(OpView& op, Types in) { return {Added(op, in[0], in.back())}; }

Types OfElement(OpView& op, const RowType& list) {
  const RowType element = ElementOf(list);
  if (!element.typed()) return {};
  return {Kept(op, element)};
}
Types ArrayRead(OpView& op, Types in) {
  return OfElement(op, Elements(op, in[0], in[2]));
}
Types ListGet(OpView& op, Types in) { return OfElement(op, in[0]); }

Types ListPop(OpView& op, Types in) {
  const RowType element = ElementOf(in[0]);
  return {in[0], element.typed() ? Kept(op, element) : element};
}

Types ArrayScatter(OpView& op, Types in) {
  return {Added(op, Elements(op, in[0], in[3]), WithoutFront(op, in[2]))};
}

Types ListFromTensor(OpView& op, Types in) {
  const RowType element = WithoutFront(op, in[0]);
  return {element.unknown() ? element : ListOf(&element)};
}

Types ArrayGather(OpView& op, Types in) {
  return WithFront(op, ElementOf(Elements(op, in[0], in[2])));
}
Types ListStack(OpView& op, Types in) { return WithFront(op, ElementOf(in[0])); }

Types ListSize(OpView& op, Types in) {
  // The list was made with this shape, whose sizes may be -1.
  if (op.op() == "TensorListElementShape") return {Make(RowKind::kSizes)};
  return {Make(RowKind::kSame, Sizes{})};
}

Types Nothing(OpView& op, Types in) { return {Make(RowKind::kSame)}; }

}  // namespace

void AddControlFlowRules(RuleTable* rules) {
  rules->Set({"RefSwitch", "Switch"}, &Switch);
  rules->Set({"Merge", "RefMerge"}, &Merge);
  rules->Set({"PartitionedCall", "StatefulPartitionedCall", "SymbolicGradient"},
             &FunctionCall);
  rules->Set({"Case", "If", "StatelessCase", "StatelessIf"}, &If);
  rules->Set({"StatelessWhile", "While"}, &While);
  rules->Set({"StackPush", "StackPushV2"}, &Push);
  rules->Set({"StackPop", "StackPopV2"}, &Pop);
  rules->Set({"EmptyTensorList", "TensorArrayV3", "TensorListReserve"}, &NewList);
  rules->Set({"TensorArrayGradV3"}, &ArrayGradient);
  rules->Set({"OptionalFromValue", "OptionalNone"}, &Optional);
  rules->Set({"OptionalGetValue"}, &ListGet);
  rules->Set({"TensorArrayWriteV3"}, &ArrayWrite);
  rules->Set({"TensorListSetItem"}, &ListSet);
  rules->Set({"TensorListPushBack"}, &ListPush);
  rules->Set({"TensorArrayReadV3"}, &ArrayRead);
  rules->Set({"TensorListGetItem"}, &ListGet);
  rules->Set({"TensorListPopBack"}, &ListPop);
  rules->Set({"TensorArrayScatterV3"}, &ArrayScatter);
  rules->Set({"TensorListFromTensor"}, &ListFromTensor);
  rules->Set({"TensorArrayGatherV3"}, &ArrayGather);
  rules->Set({"TensorListGather", "TensorListStack"}, &ListStack);
  rules->Set({"StackCloseV2", "TensorArrayCloseV3", "TensorArraySizeV3",
              "TensorListElementShape", "TensorListLength"},
             &ListSize);
  rules->Set({"Abort", "Assert", "ControlTrigger", "NoOp", "PrintV2"}, &Nothing);
}

}  // namespace tensorbow
