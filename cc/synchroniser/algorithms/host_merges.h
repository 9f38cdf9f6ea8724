// Where hosts meet to merge their models under Adaptive SGD (adaptive.h). Between two
// meetings nobody hears of the others. A host comes
//
//   kTrained    when it has trained on its share of the mega-batch,
//   kNoData     when its data has ended or its program does something that all hosts do
//               together; again and again, until all others do, too,
//   kLeft       when its session is closed; likewise,
//   kFailed     when a learning task has failed,
//
// and then waits for all others. What they have done of the mega-batch is reported to
// all in one small sum, beside that of the reports (host_rounds.h), so that all follow
// the same rules with the same numbers:
//
//   a task of some host has failed       everybody abandons the mega-batch
//   else, some host has trained          they merge; hosts without a whole share bring
//                                        what they have, perhaps nothing
//   else all are at rest                 they merge what is left if a host wants that,
//                                        and go on with what they came to do
//
// Used between runs, or while no learner is at work. Owns nothing it is given.
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
  // A host at a meeting.
  struct Visit {
    HostRounds::Kind kind = HostRounds::Kind::kTrained;
    int64_t program = 0;  // what it trains, the same on all hosts
    bool small = false;   // all its replicas are (Adaptive::AreSmall)
    // The host asks for a merge of an incomplete mega-batch, once no host trains.
    bool wants_merge = false;
    int64_t tasks = 0;  // since the last meeting
    int64_t rows = 0;   // likewise
  };
  // What it has come to.
  struct Outcome {
    // kCounts and kNone: as said above. kDiscarded: everybody abandons the mega-batch.
    // kBroken: the cluster has failed.
    HostRounds::Fate fate = HostRounds::Fate::kBroken;
    bool merges = false;
    bool small = false;  // every replica of every host is
    int64_t tasks_of_others = 0;
    int64_t rows_of_others = 0;
    int left = -1;  // a host that has closed its session, or -1
    bool all_left = false;
  };

  HostMerges(HostRounds* rounds, MegaBatches* batches)
      : rounds_(rounds), batches_(batches) {}

  // Waits for the other hosts. The mega-batch knows of their parts afterwards. After a
  // fate of kDiscarded rounds_->why() says why, until Forgive(). REQUIRES: the hosts
  // have agreed on something before, the last round's fate has been awaited, and the
  // mega-batch knows the hosts.
  Outcome Meet(const Visit& visit);

 private:
  int64_t* FieldsOf(int host);
  void Fill(const Visit& visit);
  void Read(Outcome* outcome);

  HostRounds* const rounds_;
  MegaBatches* const batches_;
  std::unique_ptr<HostSum> parts_;  // of all hosts; null before the first meeting
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_ALGORITHMS_HOST_MERGES_H_
