#include "cc/passes/program_passes.h"

#include <memory>
#include <utility>

#include "cc/passes/loops/count_iterations.h"
#include "cc/passes/program/batch_elements.h"
#include "cc/passes/program/cut_at_element.h"
#include "cc/passes/program/inline_functions.h"
#include "cc/passes/program/insert_exchanges.h"
#include "cc/passes/program/scale_rates.h"
#include "cc/passes/program/unpin_variables.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

absl::StatusOr<bool> CutAtElementPass::Run(const CompileInput& in, ProgramDraft* draft,
                                           TaskTraits* traits) const {
  auto cut = std::make_unique<ProgramGraph>();
  TF_ASSIGN_OR_RETURN(const bool is_cut,
                      CutAtElement(draft->graph(), in.spec, cut.get()));
  if (is_cut) draft->Replace(std::move(cut));
  return is_cut;
}

absl::StatusOr<bool> ResizeConstantsPass::Run(const CompileInput& in,
                                              ProgramDraft* draft,
                                              TaskTraits* traits) const {
  if (in.fixed.rows == 0 || !in.may_divide) return false;
  auto any = std::make_unique<ProgramGraph>();
  TF_RETURN_IF_ERROR(TakeAnyRows(draft->graph(), in.spec, in.fixed, any.get()));
  draft->Replace(std::move(any));
  return true;
}

absl::StatusOr<bool> InlineFunctionsPass::Run(const CompileInput& in,
                                              ProgramDraft* draft,
                                              TaskTraits* traits) const {
  if (in.rows == nullptr) return false;
  auto inlined = std::make_unique<ProgramGraph>();
  TF_ASSIGN_OR_RETURN(const bool changed,
                      InlineFunctions(draft->graph(), in.spec, inlined.get()));
  if (changed) draft->Replace(std::move(inlined));
  return changed;
}

absl::StatusOr<bool> LowerConditionalsPass::Run(const CompileInput& in,
                                                ProgramDraft* draft,
                                                TaskTraits* traits) const {
  if (in.rows == nullptr || !in.lowers_conditionals) return false;
  auto lowered = std::make_unique<ProgramGraph>();
  TF_ASSIGN_OR_RETURN(const bool changed,
                      LowerConditionals(draft->graph(), in.spec, lowered.get()));
  if (changed) draft->Replace(std::move(lowered));
  return changed;
}

absl::StatusOr<bool> InsertExchangesPass::Run(const CompileInput& in,
                                              ProgramDraft* draft,
                                              TaskTraits* traits) const {
  if (in.rows == nullptr) return false;
  absl::flat_hash_set<std::string> trained;
  for (const auto& [name, use] : in.analysis.variables) {
    if (use.trained) trained.insert(name);
  }
  TF_ASSIGN_OR_RETURN(RowTypes types,
                      TypeRows(draft->graph(), in.spec, trained, *in.rows,
                               in.exchanging == Exchanging::kAll));
  if (types.unknown != nullptr) {
    return absl::InvalidArgumentError(Describe(*types.unknown));
  }
  const bool averages = in.averages == Traits::Averages::kGradients;
  traits->estimates = !in.options.divides_batches();
  const bool changes = averages || !traits->estimates;
  if (changes) {
    auto exchanged = std::make_unique<ProgramGraph>();
    TF_ASSIGN_OR_RETURN(InsertedExchanges inserted,
                        InsertExchanges(draft->graph(), in.spec, types, in.exchanging,
                                        exchanged.get()));
    traits->estimates |= inserted.estimates;
    if (averages) traits->averaged = std::move(inserted.averaging_writes);
    draft->Replace(std::move(exchanged));
    traits->exchanges = in.exchanging == Exchanging::kAll;
  }
  traits->types = std::make_shared<const RowTypes>(std::move(types));
  return changes;
}

absl::StatusOr<bool> CountIterationsPass::Run(const CompileInput& in,
                                              ProgramDraft* draft,
                                              TaskTraits* traits) const {
  if (in.on_accelerators) return false;
  auto counted = std::make_unique<ProgramGraph>();
  // A program whose shapes are wrong fails when it is executed, with a better message.
  const bool changed =
      CountIterations(draft->graph(), in.spec, counted.get()).value_or(false);
  if (changed) draft->Replace(std::move(counted));
  return changed;
}

absl::StatusOr<bool> ScaleRatesPass::Run(const CompileInput& in, ProgramDraft* draft,
                                         TaskTraits* traits) const {
  if (in.averages != Traits::Averages::kMergedModels) return false;
  tf::GraphDef graph;
  TF_RETURN_IF_ERROR(ScaleRates(draft->graph(), in.spec, in.analysis, &graph));
  TF_RETURN_IF_ERROR(draft->Replace(graph));
  return true;
}

absl::StatusOr<bool> BatchElementsPass::Run(const CompileInput& in, ProgramDraft* draft,
                                            TaskTraits* traits) const {
  const int64_t rows = in.options.adaptive.b_max;
  if (in.averages != Traits::Averages::kMergedModels || rows == 0) return false;
  tf::GraphDef graph;
  TF_RETURN_IF_ERROR(draft->graph().Closure(in.spec, &graph));
  BatchElements(rows, &graph);
  TF_RETURN_IF_ERROR(draft->Replace(graph));
  return true;
}

absl::StatusOr<bool> UnpinVariablesPass::Run(const CompileInput& in,
                                             ProgramDraft* draft,
                                             TaskTraits* traits) const {
  if (!in.on_accelerators) return false;
  tf::GraphDef graph;
  TF_RETURN_IF_ERROR(draft->graph().Closure(in.spec, &graph));
  if (!UnpinVariables(TrainedVariables(in.analysis), &graph)) return false;
  TF_RETURN_IF_ERROR(draft->Replace(graph));
  return true;
}

}  // namespace tensorbow
