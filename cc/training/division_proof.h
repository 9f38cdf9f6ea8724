// Shows, before a learning run is divided for the first time, that dividing it changes
// nothing that matters.
//
// The run's gradients and fetches are evaluated on a copy of its graph without side
// effects (repeatable_copy.h), on the central variables, once with all rows and
// once with each shard. Division is
//   sound            if the row-weighted mean of the shards' gradients is the whole's,
//   or
//                    their sum is (the loss sums over rows: each gradient is then
//                    scaled by the number of shards);
//   nearly sound     if the whole's gradients are a mean of the shards' by other
//   weights,
//                    which the batch itself gives them (means over unmasked positions,
//                    weights that are normalised over the batch), within bounds;
//   by batch moments if rows are normalised by their batch's moments, and the division
//                    is sound when each shard is given the moments of all rows and the
//                    gradients by these moments. Learners that are in step exchange
//                    both. Or if shards cannot be given them, or learners are not in
//                    step, and rows given twice change nothing;
//   not sound        else, or if a shard fails where the whole does not.
// State that is not trained is looked at likewise: what learners write to it may have
// to be averaged or added up.
//
// What is not simply the mean must see the batch as a set: rows that are given twice
// have the same gradient, or twice it. Time in front, halves of a batch and entries of
// sparse matrices do not.
#ifndef TENSORBOW_CC_TRAINING_DIVISION_PROOF_H_
#define TENSORBOW_CC_TRAINING_DIVISION_PROOF_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cc/analysis/run_analysis.h"
#include "cc/config/options.h"
#include "cc/feeds/feeds.h"
#include "cc/graph/program_graph.h"
#include "cc/learner/central_evaluation.h"
#include "cc/learner/learner_group.h"
#include "cc/passes/program/insert_exchanges.h"
#include "cc/passes/program/repeatable_copy.h"
#include "cc/rewrite/denominators.h"
#include "cc/rewrite/gradient_sources.h"
#include "cc/rewrite/state_changes.h"
#include "cc/training/division_evidence.h"
#include "cc/training/division_judgement.h"
#include "tensorflow/core/framework/tensor.h"

namespace tensorbow {

// What learners' graphs need so that their shards of the rows make the step of all.
struct Adjustments {
  // Tensors to scale by the number of shards, because the loss sums over rows.
  std::set<std::string> sums;
  // Where learners that are in step exchange what they write to state that is not
  // trained, and what they divide by.
  Meetings meetings;

  bool operator==(const Adjustments& other) const {
    return sums == other.sums && meetings == other.meetings;
  }
};

// What a proof has found.
struct Verdict {
  using Kind = Judgement::Kind;
  Kind kind = Kind::kUnproven;
  // For people: what agrees, or does not and by how much; why there is no proof.
  std::string why;
  Adjustments adjustments;
  // Of a nearly sound division: by shard, with which all gradients are a mean.
  std::vector<double> weights;
  // Whether no meeting makes a nearly sound division exact.
  bool inexact = false;
  // Of a division by batch moments: what differs even where shards are given the
  // moments of all rows. Else empty.
  std::string coupled;
  // Why state, or a rate, is not what all rows make of it by any meeting. Else empty.
  std::string states_differ;
  // How shards' values become the whole's, by the number of the fetch; nothing where
  // that has not been found out.
  std::vector<std::optional<Combination>> fetches;
  // Fetches that no rule gives.
  std::vector<int> uncombined;
  // Whether nothing was too small to be told apart: else it is worth looking again.
  bool determined = false;
  // The norm of the greatest gradient by all rows.
  double greatest = 0;

  bool divides() const { return kind != Kind::kNotSound; }
};

// How a proof is made.
struct ProofOptions {
  int num_shards = 2;
  int64_t most_rows = 0;  // of those fed; 0: all
  double how_far = 0;     // weights are moved by a normal deviate times this
};

class DivisionProof {
 public:
  // `fetches`: of the run, those that learners compute; "" for others. `*proof` refers
  // to nothing it is given. Saying why, FailedPrecondition if there are no
  // gradients to compare, and Unimplemented if they cannot be evaluated.
  static absl::Status Make(const ProgramGraph& graph, const RunSpec& spec,
                           const RunAnalysis& analysis,
                           const std::vector<std::string>& fetches,
                           std::unique_ptr<DivisionProof>* proof);

  // Evaluates and judges. `plan`: how they are divided. REQUIRES: `learners` are the
  // same group every time, whose central session has the variables' current values. An
  // error if the whole cannot be evaluated.
  absl::StatusOr<Verdict> Prove(const LearnerGroup& learners,
                                const std::vector<tensorflow::Tensor>& feeds,
                                const FeedPlan& plan, const ProofOptions& options);

  // Frees what is kept for evaluations.
  void Release();

 private:
  using Values = std::vector<tensorflow::Tensor>;
  struct Evaluation {
    struct Gradient {
      tensorflow::DataType dtype;
      int64_t size;  // elements; -1 if it cannot be compared
      tensorflow::Tensor
          values;  // where dense, a sketch; where a new value, the change
      tensorflow::Tensor indices;  // of rows, where sparse
    };
    std::vector<Gradient> gradients;  // by source
    Values fetches;                   // by fetch; empty where it is not evaluated
    Values states;                    // by state change, likewise
    Values denominators, totals;      // likewise; scalars only
    Values exchanges;                 // by ProofGraph::Exchange
  };
  // What a shard is given of the evaluation by all rows, as learners exchange it.
  enum class Given {
    kNothing,                 // the shard computes its own
    kMoments,                 // the moments, and the gradients by them
    kMomentsByPart,           // the moments; of the gradients by them, the shard's part
    kMomentsAndDenominators,  // as kMoments; of the denominators, the shard's part
  };

  // What has been evaluated, and of which rows.
  struct Evaluations {
    Evaluation whole;
    std::vector<Evaluation> shards;
    std::vector<int64_t> rows;        // of the shards
    std::optional<Evaluation> twice;  // the first shard's rows

    // One of the values of the whole, then of each shard.
    Values Of(Values Evaluation::* values, size_t i) const {
      Values found = {(whole.*values)[i]};
      for (const Evaluation& shard : shards) found.push_back((shard.*values)[i]);
      return found;
    }
  };

  // One call of Prove(): where rows are evaluated, and how. A shard's part of a value
  // is its number of rows divided by `count`, times the value.
  struct Request {
    const LearnerGroup& learners;
    const std::vector<tensorflow::Tensor>& feeds;
    const FeedPlan& plan;
    std::vector<FeedPlan::Rows> shards;
    int64_t count;
    double how_far;
  };

  // The graph to evaluate: `graph`, or one of the others, which is made from it so that
  // shards can be given moments, or moments and denominators.
  const ProgramGraph* ChooseGraph(const ProgramGraph& graph, const RunSpec& spec,
                                  const RunAnalysis& analysis, ProgramGraph* held,
                                  ProgramGraph* exchanging);
  // `exchanging` ← what `spec` needs of `graph`, so that shards can be given the
  // denominators that are known to be scalars. False if there is none.
  bool ExchangeDenominators(const ProgramGraph& graph, const RunSpec& spec,
                            ProgramGraph* exchanging);
  // The tensors that are evaluated beside the gradients: fetches, then each denominator
  // and its total, then states; "" in the place of one that is not evaluated.
  std::vector<std::string> Beside(const ProgramGraph& graph,
                                  const std::vector<std::string>& fetches) const;
  // Copies from `graph` what the gradients need, and what `beside` needs where that can
  // be copied.
  absl::Status CopyGraph(const ProgramGraph& graph, const RunSpec& spec,
                         const std::vector<std::string>& beside);
  // Compiles the copy for evaluations that are given so much, the first time.
  absl::StatusOr<const CentralEvaluation*> Compile(const LearnerGroup& learners,
                                                   Given given);
  // `count`: how many rows `feeds` has. `whole`: the evaluation by all rows; null where
  // nothing is given.
  absl::StatusOr<Evaluation> Evaluate(const Request& request, Values feeds,
                                      int64_t count, Given given,
                                      const Evaluation* whole);
  // Evaluates the shards and judges their gradients.
  void EvaluateShards(const Request& request, Given given, Evaluations* evaluations,
                      Verdict* verdict);
  // Evaluates the shards with one kind of Given after the other. Returns the first with
  // which the division is sound, else kNothing: then `*coupled` says what differs where
  // shards are given the moments.
  Given GivenForSoundness(const Request& request, Evaluations* evaluations,
                          Verdict* verdict, std::string* coupled);
  // What is to be compared of the values evaluated, in little memory.
  Evaluation Digest(const Values& values) const;
  // The gradient of a source in several evaluations; nothing if they cannot be
  // compared.
  std::vector<tensorflow::Tensor> Gradients(
      int source, const std::vector<const Evaluation*>& evaluations) const;
  // Whether the rows given twice are needed to say more. `own_moments`: whether shards
  // are normalised by their own.
  bool JudgeGradients(const Evaluations& evaluations, bool own_moments,
                      Verdict* verdict) const;
  // How the shards' values, of a fetch or the like, become the whole's, if gradients
  // are of that kind.
  FetchEvidence CompareValues(
      const Evaluations& evaluations, Verdict::Kind kind,
      const std::function<tensorflow::Tensor(const Evaluation&)>& value, bool depends,
      bool may_be_mean) const;
  void JudgeFetches(const Evaluations& evaluations, Verdict* verdict) const;
  // Whether each denominator that shards can be given adds up over the shards.
  bool DenominatorsAddUp(const Evaluations& evaluations) const;
  // `given`: whether shards have been given their parts of the denominators.
  void JudgeDenominators(const Evaluations& evaluations, bool given,
                         Verdict* verdict) const;
  void JudgeStates(const Evaluations& evaluations, Verdict* verdict) const;

  std::vector<GradientSource> sources_;
  // Where their values are among what is evaluated; -1 for none.
  struct Places {
    int tensor = -1;
    int indices = -1;
    int variable = -1;  // its value, where the source is a new value of it
  };
  std::vector<Places> places_;  // by source
  std::vector<int> fetches_;    // by fetch: where its value is, or -1
  std::vector<bool> depends_;   // by fetch: on what is fed
  bool has_16_bits_ = false;    // something is computed in so many
  std::map<std::string, Denominator> denominators_;  // by tensor
  std::vector<int> at_denominators_, at_totals_;     // where their values are, or -1
  std::set<std::string> exchanged_;                  // those that shards can be given
  std::vector<StateChange> state_changes_;
  std::vector<int> states_;  // by state change: where its value is, or -1
  // What the graph says.
  std::vector<bool> fetches_may_be_means_, states_may_be_means_;
  bool batch_moments_ = false;
  std::map<std::string, tensorflow::TensorShape> shapes_;  // of variables, if known
  ProofGraph graph_;
  // With kNothing, with kMoments or kMomentsByPart, and with kMomentsAndDenominators;
  // null until they are needed.
  std::unique_ptr<CentralEvaluation> with_nothing_, with_moments_, with_all_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_TRAINING_DIVISION_PROOF_H_
