#include "cc/passes/exchange_passes.h"

#include <memory>
#include <utility>

#include "cc/rewrite/average_at_loss.h"
#include "cc/rewrite/row_moments.h"
#include "cc/rewrite/scale_gradients.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

absl::StatusOr<bool> AverageMomentsPass::Run(const CompileInput& in,
                                             ProgramDraft* draft,
                                             TaskTraits* traits) const {
  traits->meets = in.averages == Traits::Averages::kGradients && in.may_exchange;
  const RowMoments moments = FindRowMoments(draft->graph(), in.spec);
  traits->own_moments = moments.any() && !traits->meets;
  if (!traits->meets || moments.means.empty()) return false;
  auto together = std::make_unique<ProgramGraph>();
  TF_ASSIGN_OR_RETURN(const bool all,
                      AverageMoments(draft->graph(), in.spec, in.analysis, traits->sums,
                                     together.get()));
  traits->own_moments = !all;
  draft->Replace(std::move(together));
  return true;
}

absl::StatusOr<bool> InsertMeetingsPass::Run(const CompileInput& in,
                                             ProgramDraft* draft,
                                             TaskTraits* traits) const {
  if (!traits->meets || in.exchanges.empty()) return false;
  auto met = std::make_unique<ProgramGraph>();
  TF_RETURN_IF_ERROR(InsertMeetings(draft->graph(), in.spec, in.exchanges, met.get()));
  draft->Replace(std::move(met));
  return true;
}

absl::StatusOr<bool> AverageAtLossPass::Run(const CompileInput& in, ProgramDraft* draft,
                                            TaskTraits* traits) const {
  if (!in.at_loss) return false;
  const auto gradients =
      FindGradientsAtLoss(draft->graph(), in.spec, in.analysis).dense;
  auto averaged = std::make_unique<ProgramGraph>();
  TF_RETURN_IF_ERROR(AverageAtLoss(draft->graph(), in.spec, gradients, averaged.get()));
  draft->Replace(std::move(averaged));
  traits->same_fetches = FetchesOfAverages(draft->graph(), in.spec);
  return true;
}

absl::StatusOr<bool> ScaleGradientsPass::Run(const CompileInput& in,
                                             ProgramDraft* draft,
                                             TaskTraits* traits) const {
  if (in.sums.empty() || in.averages == Traits::Averages::kMergedModels) return false;
  auto scaled = std::make_unique<ProgramGraph>();
  TF_RETURN_IF_ERROR(ScaleGradients(draft->graph(), in.spec, in.sums, scaled.get()));
  draft->Replace(std::move(scaled));
  return true;
}

}  // namespace tensorbow
