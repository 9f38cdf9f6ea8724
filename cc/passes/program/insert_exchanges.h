// Where learners that share the rows of a batch exchange a value within their tasks,
// and go on with what they have together.
#ifndef TENSORBOW_CC_PASSES_PROGRAM_INSERT_EXCHANGES_H_
#define TENSORBOW_CC_PASSES_PROGRAM_INSERT_EXCHANGES_H_

#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "cc/graph/program_graph.h"

namespace tensorbow {

constexpr char kMeanTogether[] = "TensorBowMeanTogether";
// Its attribute, where the task may not be executed without the meeting.
constexpr char kMustMeet[] = "_tensorbow_must_meet";

struct Meeting {
  // What every learner gets: the mean, weighted by rows; of the sum, the part of its
  // rows; the sum. Or its own value times its share of the rows, which is no meeting.
  enum class How { kMean, kPart, kSum, kShare };
  How how = How::kMean;
  bool must = false;            // see kMustMeet
  std::set<std::string> users;  // nodes that take what is exchanged; empty: all

  bool operator==(const Meeting& other) const {
    return how == other.how && must == other.must && users == other.users;
  }
};
using Meetings = std::map<std::string, Meeting>;  // by tensor

// `together` ← what `spec` needs of `graph`, with these meetings. When learners come to
// them is not settled yet (NormaliseTogether). Pure function.
absl::Status InsertMeetings(const ProgramGraph& graph, const RunSpec& spec,
                            const Meetings& meetings, ProgramGraph* together);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_PROGRAM_INSERT_EXCHANGES_H_
