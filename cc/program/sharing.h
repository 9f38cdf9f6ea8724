// The variables that all learners of a session share.
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

  // Adds the variables that a program uses and can share. Returns the ones that it is
  // to share, in whole groups. `*separated`: variables that are no longer shared; the
  // programs that share them must be compiled again.
  Names Agree(const SharableVariables& program, Names* separated);

 private:
  Names shared_;
  Names apart_;  // not shared, for the rest of the session
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PROGRAM_SHARING_H_
