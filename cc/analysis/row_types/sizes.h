// Numbers of elements as polynomials over symbols, and the parts of rows they count.
//
// A number that follows from shapes is a sum of products of symbols. A symbol is a
// dimension that the graph leaves open. A symbol of rows counts the rows of one
// learner: those that it is fed, or those that data choose. All other symbols are the
// same on all learners. Sizes are assumed to be at least 1: with a size of 0 there is
// nothing to compute.
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

// A set of rows, of which each learner holds a piece.
using Part = int;
inline constexpr Part kFedRows = 0;  // the rows of the run's feeds
inline constexpr Part kAnyRows = 1;  // rows that fit any part: drawn one by one

// The table of all polynomials. Thread-compatible.
class SizeTable {
 public:
  using Symbol = int;
  // The factors of a product: symbols with their powers, sorted.
  using Powers = std::vector<std::pair<Symbol, int>>;
  using Polynomial = std::vector<std::pair<Powers, int64_t>>;  // sorted

  SizeTable();

  Size Constant(int64_t value);
  // Returns an open dimension, the same on all learners.
  Size Open(absl::string_view name);
  // Returns an open dimension of a tensor that every learner is fed as a whole.
  Size OfFeed(absl::string_view name);
  // Returns whether the size may be any number that a run is fed.
  bool IsOfFeed(Size size) const;
  // Returns a learner's number of rows of a simple part.
  Size RowsOf(Part part);
  // Returns the number of all rows for a learner's; unknown if it counts chosen rows.
  Size OfAll(Size size);
  // Returns an open dimension of a tensor that depends on all rows.
  Size OpenOfAll(absl::string_view name);
  // Returns whether the size may be, or contain, the number of all rows.
  bool CountsAll(Size size) const;

  // Returns the product; unknown if an operand is.
  Size Times(Size a, Size b);
  Size Times(absl::Span<const Size> factors);
  Size Plus(Size a, Size b) { return Sum(a, b, 1); }
  Size Minus(Size a, Size b) { return Sum(a, b, -1); }
  // Returns the quotient; unknown also if it is no polynomial.
  Size Over(Size a, Size b);

  const Polynomial& Terms(Size size) const { return polynomials_[size.id]; }
  // Returns the value of a constant.
  std::optional<int64_t> Number(Size size) const;
  // Returns the name, which starts with '#' if the symbol counts rows.
  const std::string& NameOf(Symbol symbol) const { return names_[symbol]; }
  // Returns the symbols of rows in it.
  std::vector<Symbol> RowSymbols(Size size) const;
  bool HasRows(Size size) const { return size.known() && has_rows_[size.id]; }
  bool HasRows(absl::Span<const Size> sizes) const;
  // Returns whether the size counts rows, or is unknown.
  bool MayHaveRows(Size size) const { return !size.known() || HasRows(size); }
  bool MayHaveRows(absl::Span<const Size> sizes) const;
  // Returns the symbols of rows in its terms, with their powers; without repetitions.
  std::vector<Powers> RowPowers(Size size) const;
  // Returns the number of symbols of rows in each term; nullopt if terms differ.
  std::optional<int> Degree(Size size) const;
  // Returns whether all rows that it counts are fed ones.
  bool HasFedRowsOnly(Size size) const;
  // Returns the part whose rows it counts, times numbers that are the same on all
  // learners.
  std::optional<Part> PartOf(Size size) const;
  std::string ToString(Size size) const;

  // Returns rows chosen by data; `by`: the tensor that chooses them, and the index of
  // the choice.
  Part Chosen(absl::string_view by, int choice = -1);
  // Returns `by` copies of `base` one after the other; each learner's copies lie
  // together.
  Part Repeated(Size by, Part base);
  // Returns pieces one after the other: parts with their sizes.
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
