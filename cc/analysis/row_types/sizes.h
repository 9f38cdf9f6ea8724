// Numbers of elements as polynomials over symbols, and the parts of rows they count.
//
// A number that follows from shapes is a sum of products of symbols. A symbol is a
// dimension that the graph leaves open. A symbol of rows counts the rows of one
// learner: those that it is fed, or those that data choose. All other symbols are the
// same on all learners. Sizes are at least 1: where one is 0 there is nothing to
// compute.
#ifndef TENSORBOW_CC_ANALYSIS_ROW_TYPES_SIZES_H_
#define TENSORBOW_CC_ANALYSIS_ROW_TYPES_SIZES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tensorbow {

// A polynomial of a SizeTable, or unknown. Equal polynomials have equal ids.
struct Size {
  int id = -1;

  bool known() const { return id >= 0; }
  friend bool operator==(Size a, Size b) { return a.id == b.id; }
  friend bool operator!=(Size a, Size b) { return a.id != b.id; }
  friend bool operator<(Size a, Size b) { return a.id < b.id; }
};
inline constexpr Size kUnknownSize{};
inline constexpr Size kZeroSize{0};
inline constexpr Size kOneSize{1};

using Sizes = absl::InlinedVector<Size, 4>;

// A set of rows that learners hold pieces of.
using Part = int;
inline constexpr Part kFedRows = 0;  // the rows of the run's feeds
inline constexpr Part kAnyRows = 1;  // rows as good as any: drawn one by one

// Thread-compatible.
class SizeTable {
 public:
  using Symbol = int;
  // Factors of a product: symbols with their powers, sorted.
  using Powers = std::vector<std::pair<Symbol, int>>;
  using Polynomial = std::vector<std::pair<Powers, int64_t>>;  // sorted

  SizeTable();

  Size Constant(int64_t value);
  // An open dimension, the same on all learners.
  Size Open(absl::string_view name);
  // An open dimension of a tensor that every learner is fed as a whole.
  Size OfFeed(absl::string_view name);
  // Whether the size may be any number that a run is fed.
  bool IsOfFeed(Size size) const;
  // A learner's number of rows of a simple part.
  Size RowsOf(Part part);
  // The number of all rows for each learner's; unknown where it counts chosen rows.
  Size OfAll(Size size);
  // An open dimension of a tensor that depends on all rows.
  Size OpenOfAll(absl::string_view name);
  // Returns whether the size may be, or contain, the number of all rows.
  bool CountsAll(Size size) const;

  // Unknown where an operand is.
  Size Times(Size a, Size b);
  Size Times(absl::Span<const Size> factors);
  Size Plus(Size a, Size b) { return Sum(a, b, 1); }
  Size Minus(Size a, Size b) { return Sum(a, b, -1); }
  // Unknown also where the quotient is no polynomial.
  Size Over(Size a, Size b);

  const Polynomial& Terms(Size size) const { return polynomials_[size.id]; }
  // The value of a constant.
  std::optional<int64_t> Number(Size size) const;
  // Begins with '#' if the symbol counts rows.
  const std::string& NameOf(Symbol symbol) const { return names_[symbol]; }
  // The symbols of rows in it.
  std::vector<Symbol> RowSymbols(Size size) const;
  bool HasRows(Size size) const { return size.known() && has_rows_[size.id]; }
  bool HasRows(absl::Span<const Size> sizes) const;
  // An unknown number may count rows, too.
  bool MayHaveRows(Size size) const { return !size.known() || HasRows(size); }
  bool MayHaveRows(absl::Span<const Size> sizes) const;
  // The symbols of rows in each of its terms, with their powers; without repetitions.
  std::vector<Powers> RowPowers(Size size) const;
  // The number of symbols of rows in each term; nullopt if terms differ.
  std::optional<int> Degree(Size size) const;
  // Returns whether all rows that it counts are fed ones.
  bool HasFedRowsOnly(Size size) const;
  // The part whose rows it counts, times what is the same on all learners.
  std::optional<Part> PartOf(Size size) const;
  std::string ToString(Size size) const;

  // Rows that data choose; `by`: the tensor that chooses them, and which of its
  // choices.
  Part Chosen(absl::string_view by, int choice = -1);
  // `by` copies of `base` one after the other, one copy of each learner together.
  Part Repeated(Size by, Part base);
  // Pieces one after the other: parts with their sizes.
  Part Concatenated(std::vector<std::pair<Part, Size>> pieces);

  struct PartInfo {
    enum class Kind { kFed, kAny, kChosen, kRepeated, kConcatenated };
    Kind kind = Kind::kFed;
    Symbol symbol = -1;                         // of kFed and kChosen
    std::string chooser;                        // of kChosen
    int choice = -1;                            // of kChosen
    Size by;                                    // of kRepeated
    Part base = -1;                             // of kRepeated
    std::vector<std::pair<Part, Size>> pieces;  // of kConcatenated
  };
  const PartInfo& Info(Part part) const { return parts_[part]; }
  // Returns whether a learner's share of the part is its share of the fed rows.
  bool IsShared(Part part) const;
  std::string ToString(Part part) const;

 private:
  Size Sum(Size a, Size b, int sign);
  Size Intern(Polynomial polynomial);
  Symbol FindSymbol(absl::string_view name, bool rows);
  Part AddPart(std::string key, PartInfo info);

  Symbol all_rows_ = -1;
  std::vector<Polynomial> polynomials_;
  std::vector<bool> has_rows_;  // by polynomial
  std::map<Polynomial, int> ids_;
  absl::flat_hash_map<std::pair<int, int>, Size> products_;
  std::vector<std::string> names_;  // by symbol
  std::vector<Part> symbol_parts_;  // by symbol; -1: no symbol of rows
  absl::flat_hash_map<std::string, Symbol> symbols_;
  std::vector<PartInfo> parts_;
  absl::flat_hash_map<std::string, Part> part_ids_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ANALYSIS_ROW_TYPES_SIZES_H_
