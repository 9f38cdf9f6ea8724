// Of which variables the learners of a session have one copy for all of them.
//
// A variable is shared while every program that has been compiled can share it
// (cc/passes/task/share_variables.h). Thread-compatible.
#ifndef TENSORBOW_CC_PROGRAM_SHARING_H_
#define TENSORBOW_CC_PROGRAM_SHARING_H_

#include <set>
#include <string>

#include "cc/passes/task/share_variables.h"

namespace tensorbow {

class Sharing {
 public:
  using Names = std::set<std::string>;

  // Learns what a program can share of what it uses. Returns what it is to share: whole
  // groups. `*separated`: what was shared until now and is not any more; programs that
  // share it are to be compiled again.
  Names Agree(const SharableVariables& program, Names* separated);

 private:
  Names shared_;
  Names apart_;  // every learner has its own, for good
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PROGRAM_SHARING_H_
