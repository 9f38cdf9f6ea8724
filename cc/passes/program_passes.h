// The passes over the program's graph (cc/passes/program). Stateless.
#ifndef TENSORBOW_CC_PASSES_PROGRAM_PASSES_H_
#define TENSORBOW_CC_PASSES_PROGRAM_PASSES_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cc/passes/pass.h"

namespace tensorbow {

// Cuts out the ops that made the run's fed element.
class CutAtElementPass : public ProgramPass {
 public:
  absl::string_view name() const override { return "CutAtElement"; }
  absl::StatusOr<bool> Run(const CompileInput& in, ProgramDraft* draft,
                           TaskTraits* traits) const override;
};

// Makes a program of a fixed number of rows accept any number.
class ResizeConstantsPass : public ProgramPass {
 public:
  absl::string_view name() const override { return "ResizeConstants"; }
  absl::StatusOr<bool> Run(const CompileInput& in, ProgramDraft* draft,
                           TaskTraits* traits) const override;
};

// Replaces calls of functions by their bodies if rows are typed.
class InlineFunctionsPass : public ProgramPass {
 public:
  absl::string_view name() const override { return "InlineFunctions"; }
  absl::StatusOr<bool> Run(const CompileInput& in, ProgramDraft* draft,
                           TaskTraits* traits) const override;
};

// Replaces conditionals that are functions, in which learners cannot exchange values.
class LowerConditionalsPass : public ProgramPass {
 public:
  absl::string_view name() const override { return "LowerConditionals"; }
  absl::StatusOr<bool> Run(const CompileInput& in, ProgramDraft* draft,
                           TaskTraits* traits) const override;
};

// Types rows, and inserts the exchanges and rescales that the types require.
// InvalidArgument if learners cannot divide the rows.
class InsertExchangesPass : public ProgramPass {
 public:
  absl::string_view name() const override { return "InsertExchanges"; }
  absl::StatusOr<bool> Run(const CompileInput& in, ProgramDraft* draft,
                           TaskTraits* traits) const override;
};

// Counts the iterations of loops, where they are a constant.
class CountIterationsPass : public ProgramPass {
 public:
  absl::string_view name() const override { return "CountIterations"; }
  absl::StatusOr<bool> Run(const CompileInput& in, ProgramDraft* draft,
                           TaskTraits* traits) const override;
};

// Multiplies learning rates by each learner's factor, for merged models.
class ScaleRatesPass : public ProgramPass {
 public:
  absl::string_view name() const override { return "ScaleRates"; }
  absl::StatusOr<bool> Run(const CompileInput& in, ProgramDraft* draft,
                           TaskTraits* traits) const override;
};

// Takes several elements of a pipeline at once, for merged models.
class BatchElementsPass : public ProgramPass {
 public:
  absl::string_view name() const override { return "BatchElements"; }
  absl::StatusOr<bool> Run(const CompileInput& in, ProgramDraft* draft,
                           TaskTraits* traits) const override;
};

// Moves pinned variables to the learners' accelerator.
class UnpinVariablesPass : public ProgramPass {
 public:
  absl::string_view name() const override { return "UnpinVariables"; }
  absl::StatusOr<bool> Run(const CompileInput& in, ProgramDraft* draft,
                           TaskTraits* traits) const override;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_PROGRAM_PASSES_H_
