// The protocol by which hosts merge their models under Adaptive SGD (adaptive.h).
// Between two merges a host hears nothing of the others. It visits
//
//   kTrained    after training on its share of the mega-batch,
//   kNoData     when its data has ended, or its program does something that needs all
//               hosts; repeatedly, until all others do so,
//   kLeft       when its session is closed; repeatedly as well,
//   kFailed     after a failed learning task,
//
// and then waits for all others. A small sum beside that of the reports (host_rounds.h)
// carries each host's part of the mega-batch, so that all apply the same rules to the
// same numbers:
//
//   a task of some host has failed       all abandon the mega-batch
//   else, some host has trained          all merge; hosts without a whole share
//                                        contribute their part, perhaps nothing
//   else all are at rest                 all merge the rest if a host wants that, and
//                                        go on with their own business
//
// Used between runs, or while no learner works. Owns nothing it is given.
#ifndef TENSORBOW_CC_SYNCHRONISER_ALGORITHMS_HOST_MERGES_H_
#define TENSORBOW_CC_SYNCHRONISER_ALGORITHMS_HOST_MERGES_H_

#include <cstdint>
#include <memory>

#include "cc/synchroniser/algorithms/mega_batches.h"
#include "cc/synchroniser/hosts/host_rounds.h"
#include "cc/synchroniser/hosts/hosts.h"

namespace tensorbow {

class HostMerges {
 public:
  // A host's part of a visit.
  struct Visit {
    HostRounds::Kind kind = HostRounds::Kind::kTrained;
    int64_t program = 0;  // that it trains, the same on all hosts
    bool small = false;   // whether all its replicas are (Adaptive::AreSmall)
    // Asks for a merge of an incomplete mega-batch, once no host trains.
    bool wants_merge = false;
    int64_t tasks = 0;  // since the last visit
    int64_t rows = 0;   // since the last visit
  };
  // The common decision.
  struct Outcome {
    // kCounts: a host has trained; kNone: all are at rest; kDiscarded: all abandon the
    // mega-batch; kBroken: the cluster has failed.
    HostRounds::Result result = HostRounds::Result::kBroken;
    bool merges = false;
    bool small = false;  // whether every replica of every host is
    int64_t tasks_of_others = 0;
    int64_t rows_of_others = 0;
    int left = -1;  // a host that has closed its session, or -1
    bool all_left = false;
  };

  HostMerges(HostRounds* rounds, MegaBatches* batches)
      : rounds_(rounds), batches_(batches) {}

  // Waits for the other hosts, and gives their parts to the mega-batch. After
  // kDiscarded, rounds_->why() has the reason, until AcknowledgeFailure(). REQUIRES:
  // the hosts have agreed on their state, the last round's result has been awaited, and
  // the mega-batch knows the hosts.
  Outcome Join(const Visit& visit);

 private:
  int64_t* FieldsOf(int host);
  void Fill(const Visit& visit);
  void Read(Outcome* outcome);

  HostRounds* const rounds_;
  MegaBatches* const batches_;
  std::unique_ptr<HostSum> parts_;  // of all hosts; null before the first visit
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_ALGORITHMS_HOST_MERGES_H_
