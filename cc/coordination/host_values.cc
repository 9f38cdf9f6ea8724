#include "cc/coordination/host_values.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

constexpr int64_t kWordsAtATime = 1 << 19;

}  // namespace

std::string TakeValuesOf(Hosts* hosts, int rank,
                         std::map<std::string, tf::Tensor>* values) {
  int64_t most_bytes = 1;
  for (const auto& [name, value] : *values) {
    most_bytes = std::max(most_bytes, static_cast<int64_t>(value.TotalBytes()));
  }
  const int64_t words = std::min(kWordsAtATime, (most_bytes + 7) / 8);
  const auto sum = hosts->NewSum(Hosts::Type::kInt64, words);
  for (auto& [name, value] : *values) {
    char* const bytes = static_cast<char*>(value.data());
    const int64_t size = static_cast<int64_t>(value.TotalBytes());
    for (int64_t begin = 0; begin < size; begin += words * 8) {
      const int64_t part = std::min(words * 8, size - begin);
      std::memset(sum->data(), 0, words * 8);
      if (hosts->rank() == rank) std::memcpy(sum->data(), bytes + begin, part);
      sum->Start();
      std::string error = sum->Await();
      if (!error.empty()) return error;
      std::memcpy(bytes + begin, sum->data(), part);
    }
  }
  return "";
}

}  // namespace tensorbow
