#include "cc/program/sharing.h"

#include <algorithm>
#include <iterator>

namespace tensorbow {

Sharing::Names Sharing::Agree(const SharableVariables& program, Names* separated) {
  Names sharable;
  for (const auto& group : program.groups) sharable.insert(group.begin(), group.end());
  std::set_difference(program.used.begin(), program.used.end(), sharable.begin(),
                      sharable.end(), std::inserter(apart_, apart_.end()));
  for (size_t before = apart_.size() + 1; before != apart_.size();) {
    before = apart_.size();
    for (const auto& group : program.groups) {
      const bool breaks =
          std::any_of(group.begin(), group.end(),
                      [&](const auto& name) { return apart_.count(name) > 0; });
      if (breaks) apart_.insert(group.begin(), group.end());
    }
  }
  Names agreed;
  std::set_difference(sharable.begin(), sharable.end(), apart_.begin(), apart_.end(),
                      std::inserter(agreed, agreed.end()));
  shared_.insert(agreed.begin(), agreed.end());
  for (const std::string& name : apart_) {
    if (shared_.erase(name) > 0) separated->insert(name);
  }
  return agreed;
}

}  // namespace tensorbow
