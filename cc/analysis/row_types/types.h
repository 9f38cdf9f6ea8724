// Row types: how the learners' values of a tensor make the value of all rows.
//
// Learner k holds n_k of N rows; r = N/n_k. The tensor's value is v for all rows and
// v_k on learner k. With the exponent e, the types are
//
//   same      v_k = r^e · v
//   rows      the r^-e · v_k, one after the other on `axis`, are v
//   sum       v = Σ r^-e · v_k: a sum over rows (e = 0), a mean (e = 1); same with e =
//   0
//             is also a sum with e = 1
//   max, min, all, any     v is that of the v_k
//   zero      zeros: all of the above
//   unknown   none of them, or not known to be one
//
// A type holds for all values of feeds, variables and random numbers.
#ifndef TENSORBOW_CC_ANALYSIS_ROW_TYPES_TYPES_H_
#define TENSORBOW_CC_ANALYSIS_ROW_TYPES_TYPES_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cc/analysis/row_types/sizes.h"

namespace tensorbow {

enum class RowKind {
  kUntyped,  // not reached yet
  kUnknown,
  kSame,
  kRows,
  kSum,
  kMax,
  kMin,
  kAll,
  kAny,
  kZero,
  kHandle,   // a variable, a table, a stack
  kSizes,    // numbers of elements, some of them a learner's own; usable as sizes only
  kAxes,     // axes over which a gradient is summed
  kList,     // a TensorArray, a TensorList, an optional
  kSlots,    // the distinct indices of a learner's rows
  kSlotted,  // a sum for each of the kSlots
  kOfSlots,  // a value for each of the kSlots, which follows from the index alone
  kBlocks,   // pieces one after the other on `axis`, some of them rows
};

// The reason why a tensor has no type, with the op that lost it.
struct RowReason {
  std::string node;  // its path: functions' bodies are below their calls
  std::string op;
  std::string text;
};

// Rows whose values are their own indices among the rows, and may index rows only.
struct OwnPlaces {
  enum class Kind {
    kNone,
    kPlace,   // row i is i
    kColumn,  // the first column of row i is i
    kStep,    // row i is i times a number
    kNear,    // row i is i times a number, plus less than that
    kSlot,    // row i is its index among the kSlots of `slots`
  };
  Kind kind = Kind::kNone;
  Size of;            // the rows that are counted
  std::string slots;  // of kSlot

  friend bool operator==(const OwnPlaces& a, const OwnPlaces& b) {
    return a.kind == b.kind && a.of == b.of && a.slots == b.slots;
  }
};

// The equality of elements, which allows any number of rows to be made of them.
enum class Uniform {
  kNo,
  kAlongRows,  // along the first axis (of rows: all rows are equal)
  kEverywhere,
};

struct RowType {
  RowKind kind = RowKind::kUntyped;
  int exponent = 0;
  int axis = -1;  // of kRows and kBlocks
  Part part = kFedRows;
  std::optional<Sizes> dims;     // nullopt: the rank is not known
  std::optional<Sizes> numbers;  // the value, if its elements are numbers of elements
  bool of_all_rows = false;      // depends on all rows: as a size, the whole's
  Uniform uniform = Uniform::kNo;
  OwnPlaces own;
  std::shared_ptr<const RowType> element;  // of kList
  int derivative = 0;  // of kList: 1 for the gradients of a list's elements, and so on
  std::vector<std::pair<Size, RowType>> blocks;  // of kBlocks: start and type
  std::vector<int> axes;                         // of kAxes: reduced for certain
  std::vector<int> perhaps;                      // of kAxes: perhaps reduced
  std::string variable;  // of kHandle and slots: the node that makes them
  std::shared_ptr<const RowReason> why;  // of kUnknown

  bool is(RowKind k) const { return kind == k; }
  bool unknown() const { return kind == RowKind::kUnknown; }
  bool typed() const { return kind != RowKind::kUntyped; }
  // Returns whether learners exchange the value before they use it as that of all rows.
  bool partial() const { return kind >= RowKind::kSum && kind <= RowKind::kAny; }
  // Returns whether it is partial, but no sum.
  bool extreme() const { return kind > RowKind::kSum && kind <= RowKind::kAny; }
  // Returns whether, as a size, it may differ among learners, or be that of all rows.
  bool sizes_rows() const {
    return kind == RowKind::kSizes || of_all_rows || exponent != 0 || partial() ||
           kind == RowKind::kRows;
  }
  int rank() const { return static_cast<int>(dims->size()); }

  // Returns a copy without facts that only hold for this value.
  RowType WithoutNumbers() const;
  // Returns a copy that also lacks own places.
  RowType Plain() const;
  RowType WithDims(std::optional<Sizes> dims) const;
};
using Types = std::vector<RowType>;

bool operator==(const RowType& a, const RowType& b);
inline bool operator!=(const RowType& a, const RowType& b) { return !(a == b); }

RowType Make(RowKind kind, std::optional<Sizes> dims = std::nullopt, int exponent = 0);
RowType MakeRows(int axis, Part part, std::optional<Sizes> dims, int exponent = 0);

// Returns for example "TopKV2 'hardest' works along the rows".
std::string Describe(const RowReason& reason);
// Returns "rows on axis 0", "mean over rows" or "unknown: TopKV2 'hardest' works along
// the rows", for example.
std::string Describe(const RowType& type, const SizeTable& sizes);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ANALYSIS_ROW_TYPES_TYPES_H_
