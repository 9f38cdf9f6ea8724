// The passes that place exchanges between learners, and rescale, in the program's
// graph. Stateless.
#ifndef TENSORBOW_CC_PASSES_EXCHANGE_PASSES_H_
#define TENSORBOW_CC_PASSES_EXCHANGE_PASSES_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cc/passes/pass.h"

namespace tensorbow {

// Averages moments of a batch that the program computes by hand.
class AverageMomentsPass : public ProgramPass {
 public:
  absl::string_view name() const override { return "AverageMoments"; }
  absl::StatusOr<bool> Run(const CompileInput& in, ProgramDraft* draft,
                           TaskTraits* traits) const override;
};

// Places the exchanges that the proof of a division has found.
class InsertMeetingsPass : public ProgramPass {
 public:
  absl::string_view name() const override { return "InsertMeetings"; }
  absl::StatusOr<bool> Run(const CompileInput& in, ProgramDraft* draft,
                           TaskTraits* traits) const override;
};

// Averages gradients where they leave the loss.
class AverageAtLossPass : public ProgramPass {
 public:
  absl::string_view name() const override { return "AverageAtLoss"; }
  absl::StatusOr<bool> Run(const CompileInput& in, ProgramDraft* draft,
                           TaskTraits* traits) const override;
};

// Scales the gradients of a loss that sums over rows.
class ScaleGradientsPass : public ProgramPass {
 public:
  absl::string_view name() const override { return "ScaleGradients"; }
  absl::StatusOr<bool> Run(const CompileInput& in, ProgramDraft* draft,
                           TaskTraits* traits) const override;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_EXCHANGE_PASSES_H_
