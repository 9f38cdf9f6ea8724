#include "cc/analysis/row_types/sizes.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tensorbow {

namespace {

// Prefixes of the names of symbols.
constexpr char kFeed[] = "fed ";
constexpr char kAll[] = "all ";

using Powers = SizeTable::Powers;
using Polynomial = SizeTable::Polynomial;

// Adds `sign` times the powers of `b` to those of `a`; nullopt if one becomes negative.
std::optional<Powers> AddPowers(const Powers& a, const Powers& b, int sign) {
  std::map<SizeTable::Symbol, int> sum(a.begin(), a.end());
  for (const auto& [symbol, power] : b) sum[symbol] += sign * power;
  Powers powers;
  for (const auto& [symbol, power] : sum) {
    if (power < 0) return std::nullopt;
    if (power > 0) powers.push_back({symbol, power});
  }
  return powers;
}

Polynomial FromMap(const std::map<Powers, int64_t>& terms) {
  Polynomial polynomial;
  for (const auto& [powers, coefficient] : terms) {
    if (coefficient != 0) polynomial.push_back({powers, coefficient});
  }
  return polynomial;
}

}  // namespace

SizeTable::SizeTable() {
  Intern({});         // kZeroSize
  Intern({{{}, 1}});  // kOneSize
  PartInfo fed;
  fed.symbol = FindSymbol("rows", /*rows=*/true);
  symbol_parts_[fed.symbol] = AddPart("fed", fed);
  PartInfo any;
  any.kind = PartInfo::Kind::kAny;
  AddPart("any", any);
  all_rows_ = FindSymbol(absl::StrCat(kAll, "rows"), /*rows=*/false);
}

Size SizeTable::Intern(Polynomial polynomial) {
  const auto [known, added] =
      ids_.emplace(polynomial, static_cast<int>(polynomials_.size()));
  if (added) {
    bool rows = false;
    for (const auto& [powers, coefficient] : polynomial) {
      for (const auto& [symbol, power] : powers) rows |= symbol_parts_[symbol] >= 0;
    }
    has_rows_.push_back(rows);
    polynomials_.push_back(std::move(polynomial));
  }
  return {known->second};
}

SizeTable::Symbol SizeTable::FindSymbol(absl::string_view name, bool rows) {
  const std::string key = absl::StrCat(rows ? "#" : "", name);
  const auto [known, added] = symbols_.emplace(key, static_cast<int>(names_.size()));
  if (added) {
    names_.push_back(key);
    symbol_parts_.push_back(-1);
  }
  return known->second;
}

Size SizeTable::Constant(int64_t value) {
  if (value == 0) return kZeroSize;
  return Intern({{{}, value}});
}

Size SizeTable::Open(absl::string_view name) {
  return Intern({{{{FindSymbol(name, /*rows=*/false), 1}}, 1}});
}

Size SizeTable::OfFeed(absl::string_view name) {
  return Open(absl::StrCat(kFeed, name));
}

Size SizeTable::OpenOfAll(absl::string_view name) {
  return Open(absl::StrCat(kAll, name));
}

bool SizeTable::IsOfFeed(Size size) const {
  if (!size.known()) return false;
  for (const auto& [powers, coefficient] : Terms(size)) {
    for (const auto& [symbol, power] : powers) {
      if (absl::StartsWith(names_[symbol], kFeed)) return true;
    }
  }
  return false;
}

Size SizeTable::RowsOf(Part part) {
  const Symbol symbol = parts_[part == kAnyRows ? kFedRows : part].symbol;
  return symbol < 0 ? kUnknownSize : Intern({{{{symbol, 1}}, 1}});
}

Size SizeTable::OfAll(Size size) {
  if (!HasRows(size)) return size;
  const Symbol fed = parts_[kFedRows].symbol;
  const Polynomial polynomial = Terms(size);
  std::map<Powers, int64_t> terms;
  for (const auto& [powers, coefficient] : polynomial) {
    std::map<Symbol, int> whole;
    for (const auto& [symbol, power] : powers) {
      if (symbol_parts_[symbol] >= 0 && symbol != fed) return kUnknownSize;
      whole[symbol == fed ? all_rows_ : symbol] += power;
    }
    terms[Powers(whole.begin(), whole.end())] += coefficient;
  }
  return Intern(FromMap(terms));
}

bool SizeTable::CountsAll(Size size) const {
  if (!size.known()) return false;
  for (const auto& [powers, coefficient] : Terms(size)) {
    for (const auto& [symbol, power] : powers) {
      if (absl::StartsWith(names_[symbol], kAll)) return true;
    }
  }
  return false;
}

Size SizeTable::Times(Size a, Size b) {
  if (!a.known() || !b.known()) return kUnknownSize;
  if (a == kOneSize) return b;
  if (b == kOneSize) return a;
  const std::pair<int, int> key = std::minmax(a.id, b.id);
  const auto known = products_.find(key);
  if (known != products_.end()) return known->second;
  std::map<Powers, int64_t> terms;
  for (const auto& [p, c] : Terms(a)) {
    for (const auto& [q, d] : Terms(b)) terms[*AddPowers(p, q, 1)] += c * d;
  }
  return products_[key] = Intern(FromMap(terms));
}

Size SizeTable::Times(absl::Span<const Size> factors) {
  Size product = kOneSize;
  for (Size factor : factors) product = Times(product, factor);
  return product;
}

Size SizeTable::Sum(Size a, Size b, int sign) {
  if (!a.known() || !b.known()) return kUnknownSize;
  std::map<Powers, int64_t> terms(Terms(a).begin(), Terms(a).end());
  for (const auto& [powers, coefficient] : Terms(b)) {
    terms[powers] += sign * coefficient;
  }
  return Intern(FromMap(terms));
}

Size SizeTable::Over(Size a, Size b) {
  if (!a.known() || !b.known() || b == kZeroSize) return kUnknownSize;
  if (b == kOneSize) return a;
  const Polynomial divided = Terms(a), divisor = Terms(b);
  if (divisor.size() > 1) {
    if (divided.size() != divisor.size()) return kUnknownSize;
    const Size quotient = Over(Intern({divided[0]}), Intern({divisor[0]}));
    return quotient.known() && Times(quotient, b) == a ? quotient : kUnknownSize;
  }
  const auto& [powers, coefficient] = divisor[0];
  std::map<Powers, int64_t> terms;
  for (const auto& [p, c] : divided) {
    const std::optional<Powers> rest = AddPowers(p, powers, -1);
    if (!rest.has_value() || c % coefficient != 0) return kUnknownSize;
    terms[*rest] = c / coefficient;
  }
  return Intern(FromMap(terms));
}

std::optional<int64_t> SizeTable::Number(Size size) const {
  if (!size.known()) return std::nullopt;
  const Polynomial& terms = Terms(size);
  if (terms.empty()) return 0;
  if (terms.size() == 1 && terms[0].first.empty()) return terms[0].second;
  return std::nullopt;
}

std::vector<SizeTable::Symbol> SizeTable::RowSymbols(Size size) const {
  std::vector<Symbol> symbols;
  if (!HasRows(size)) return symbols;
  for (const auto& [powers, coefficient] : Terms(size)) {
    for (const auto& [symbol, power] : powers) {
      if (symbol_parts_[symbol] >= 0) symbols.push_back(symbol);
    }
  }
  std::sort(symbols.begin(), symbols.end());
  symbols.erase(std::unique(symbols.begin(), symbols.end()), symbols.end());
  return symbols;
}

bool SizeTable::HasRows(absl::Span<const Size> sizes) const {
  return std::any_of(sizes.begin(), sizes.end(),
                     [this](Size size) { return HasRows(size); });
}

bool SizeTable::MayHaveRows(absl::Span<const Size> sizes) const {
  return std::any_of(sizes.begin(), sizes.end(),
                     [this](Size size) { return MayHaveRows(size); });
}

std::vector<Powers> SizeTable::RowPowers(Size size) const {
  std::vector<Powers> found;
  if (!size.known()) return found;
  for (const auto& [powers, coefficient] : Terms(size)) {
    Powers rows;
    for (const auto& factor : powers) {
      if (symbol_parts_[factor.first] >= 0) rows.push_back(factor);
    }
    if (std::find(found.begin(), found.end(), rows) == found.end()) {
      found.push_back(rows);
    }
  }
  return found;
}

std::optional<int> SizeTable::Degree(Size size) const {
  if (!size.known()) return std::nullopt;
  std::optional<int> degree;
  for (const Powers& powers : RowPowers(size)) {
    int of_term = 0;
    for (const auto& [symbol, power] : powers) of_term += power;
    if (degree.has_value() && *degree != of_term) return std::nullopt;
    degree = of_term;
  }
  return degree;
}

bool SizeTable::HasFedRowsOnly(Size size) const {
  const std::vector<Symbol> symbols = RowSymbols(size);
  return std::all_of(symbols.begin(), symbols.end(),
                     [this](Symbol symbol) { return symbol == Info(kFedRows).symbol; });
}

std::optional<Part> SizeTable::PartOf(Size size) const {
  const std::vector<Powers> powers = RowPowers(size);
  if (powers.size() != 1 || powers[0].size() != 1 || powers[0][0].second != 1) {
    return std::nullopt;
  }
  return symbol_parts_[powers[0][0].first];
}

std::string SizeTable::ToString(Size size) const {
  if (!size.known()) return "?";
  if (Terms(size).empty()) return "0";
  std::string text;
  for (const auto& [powers, coefficient] : Terms(size)) {
    if (!text.empty()) text += "+";
    std::string term =
        coefficient != 1 || powers.empty() ? absl::StrCat(coefficient) : "";
    for (const auto& [symbol, power] : powers) {
      absl::StrAppend(&term, term.empty() ? "" : "*", names_[symbol]);
      if (power != 1) absl::StrAppend(&term, "^", power);
    }
    text += term;
  }
  return text;
}

Part SizeTable::AddPart(std::string key, PartInfo info) {
  const auto [known, added] =
      part_ids_.emplace(std::move(key), static_cast<int>(parts_.size()));
  if (added) parts_.push_back(std::move(info));
  return known->second;
}

Part SizeTable::Chosen(absl::string_view by, int choice) {
  PartInfo info;
  info.kind = PartInfo::Kind::kChosen;
  info.chooser = std::string(by);
  info.choice = choice;
  const std::string key = choice < 0 ? std::string(by) : absl::StrCat(by, "=", choice);
  info.symbol = FindSymbol(key, /*rows=*/true);
  const Symbol symbol = info.symbol;
  return symbol_parts_[symbol] = AddPart(absl::StrCat("chosen ", key), std::move(info));
}

Part SizeTable::Repeated(Size by, Part base) {
  PartInfo info;
  info.kind = PartInfo::Kind::kRepeated;
  info.by = by;
  info.base = base;
  return AddPart(absl::StrCat("repeated ", by.id, " ", base), std::move(info));
}

Part SizeTable::Concatenated(std::vector<std::pair<Part, Size>> pieces) {
  PartInfo info;
  info.kind = PartInfo::Kind::kConcatenated;
  std::string key = "concatenated";
  for (const auto& [part, size] : pieces)
    absl::StrAppend(&key, " ", part, ":", size.id);
  info.pieces = std::move(pieces);
  return AddPart(std::move(key), std::move(info));
}

bool SizeTable::IsShared(Part part) const {
  const PartInfo& info = parts_[part];
  switch (info.kind) {
    case PartInfo::Kind::kFed:
    case PartInfo::Kind::kAny:
      return true;
    case PartInfo::Kind::kChosen:
      return false;
    case PartInfo::Kind::kRepeated:
      return IsShared(info.base);
    case PartInfo::Kind::kConcatenated:
      return std::all_of(info.pieces.begin(), info.pieces.end(),
                         [this](const auto& piece) { return IsShared(piece.first); });
  }
  return false;
}

std::string SizeTable::ToString(Part part) const {
  const PartInfo& info = parts_[part];
  std::string text;
  switch (info.kind) {
    case PartInfo::Kind::kFed:
      return "fed";
    case PartInfo::Kind::kAny:
      return "any";
    case PartInfo::Kind::kChosen:
      return names_[info.symbol];
    case PartInfo::Kind::kRepeated:
      return absl::StrCat(ToString(info.by), " times ", ToString(info.base));
    case PartInfo::Kind::kConcatenated:
      for (const auto& [piece, size] : info.pieces) {
        absl::StrAppend(&text, text.empty() ? "" : " then ", ToString(piece));
      }
  }
  return text;
}

}  // namespace tensorbow
