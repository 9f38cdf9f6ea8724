#include "cc/synchroniser/gpu/block_layout.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tensorbow {
namespace {

constexpr int64_t kFlatAlignment = 64;  // elements: members begin aligned

ElementType AccumulationType(ElementType type) {
  return type == ElementType::kFloat64 ? type : ElementType::kFloat32;
}

int64_t RoundUp(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

}  // namespace

BlockLayout::BlockLayout(std::vector<Member> members)
    : members_(std::move(members)), order_(members_.size()), flat_(members_.size()) {
  std::iota(order_.begin(), order_.end(), 0);
  std::stable_sort(order_.begin(), order_.end(), [this](int a, int b) {
    return members_[a].type < members_[b].type;
  });
  for (int m : order_) {
    first_block_.push_back(static_cast<int>(blocks_.size()));
    for (int64_t begin = 0; begin < members_[m].size; begin += SmaBlock::kElements) {
      const int64_t left = members_[m].size - begin;
      blocks_.push_back(
          {begin, m,
           static_cast<int32_t>(std::min<int64_t>(left, SmaBlock::kElements))});
    }
  }
  first_block_.push_back(static_cast<int>(blocks_.size()));

  for (const ElementType type : {ElementType::kFloat32, ElementType::kFloat64}) {
    int64_t size = 0;
    for (int m = 0; m < num_members(); ++m) {
      if (AccumulationType(members_[m].type) != type) continue;
      flat_[m] = size;
      size += RoundUp(members_[m].size, kFlatAlignment);
    }
    if (size == 0) continue;
    parts_.push_back({type, flat_bytes_, size});
    flat_bytes_ += size * ElementSizeBytes(type);
  }
}

int64_t BlockLayout::part_begin_bytes(ElementType type) const {
  for (const Part& part : parts_) {
    if (part.type == AccumulationType(type)) return part.begin_bytes;
  }
  return 0;
}

std::vector<BlockLayout::Launch> BlockLayout::Launches(
    const std::function<std::optional<double>(int member)>& value) const {
  std::vector<Launch> launches;
  for (int place = 0; place < num_members(); ++place) {
    const int first = first_block_[place], count = first_block_[place + 1] - first;
    if (count == 0) continue;
    const ElementType type = members_[order_[place]].type;
    const std::optional<double> its = value(order_[place]);
    if (!its.has_value()) continue;
    if (launches.empty() || launches.back().type != type ||
        launches.back().value != *its ||
        launches.back().first + launches.back().count != first) {
      launches.push_back({type, *its, first, 0});
    }
    launches.back().count += count;
  }
  return launches;
}

}  // namespace tensorbow
