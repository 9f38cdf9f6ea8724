// The division of a trained set's variables into the blocks of SMA's kernels, and the
// places of their elements in the flat buffer that GPUs add up. The same on all GPUs.
// Immutable.
#ifndef TENSORBOW_CC_SYNCHRONISER_GPU_BLOCK_LAYOUT_H_
#define TENSORBOW_CC_SYNCHRONISER_GPU_BLOCK_LAYOUT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "cc/support/element.h"
#include "cc/synchroniser/gpu/sma_elements.h"

namespace tensorbow {

class BlockLayout {
 public:
  struct Member {
    ElementType type;
    int64_t size;  // elements
  };

  explicit BlockLayout(std::vector<Member> members);

  int num_members() const { return static_cast<int>(members_.size()); }
  const Member& member(int index) const { return members_[index]; }
  // All blocks of a member are neighbours, and so are members of one type.
  const std::vector<SmaBlock>& blocks() const { return blocks_; }
  // The member's begin in the flat buffer, in elements of its accumulation type.
  int64_t flat(int member) const { return flat_[member]; }

  // The parts of the flat buffer: elements computed as float, then those as double.
  struct Part {
    ElementType type;     // kFloat32 or kFloat64
    int64_t begin_bytes;  // a multiple of 256
    int64_t size;         // elements, with gaps between members
  };
  const std::vector<Part>& parts() const { return parts_; }  // none is empty
  int64_t flat_bytes() const { return flat_bytes_; }
  // Returns the begin of the member's part.
  int64_t part_begin_bytes(ElementType type) const;

  // Returns the fewest launches that cover every block once, each over neighbouring
  // blocks of one storage type whose members have the same `value`. Leaves out members
  // without one.
  struct Launch {
    ElementType type;
    double value;
    int first;  // block
    int count;  // of blocks
  };
  std::vector<Launch> Launches(
      const std::function<std::optional<double>(int member)>& value) const;

 private:
  const std::vector<Member> members_;
  std::vector<int> order_;        // of the members
  std::vector<int> first_block_;  // by place in that order, and the end
  std::vector<SmaBlock> blocks_;
  std::vector<int64_t> flat_;  // by member
  std::vector<Part> parts_;
  int64_t flat_bytes_ = 0;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_GPU_BLOCK_LAYOUT_H_
