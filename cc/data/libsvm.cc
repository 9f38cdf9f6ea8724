#include "cc/data/libsvm.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

namespace tensorbow {
namespace {

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// One line, read from its beginning to its end.
class Line {
 public:
  Line(std::string_view text, const LibsvmFormat& format, LibsvmRows* rows)
      : at_(text.data()),
        end_(text.data() + text.size()),
        format_(format),
        rows_(rows) {}

  // Returns the error in the line; empty if there is none.
  std::string Parse() {
    const size_t first_label = rows_->labels.size();
    if (!IsSpace(*at_) && !BeginsWithFeature()) {
      std::string wrong = ParseLabels(first_label);
      if (!wrong.empty()) return wrong;
    } else if (!format_.allows_no_labels) {
      return "it has no labels; unlabelled=\"keep\" takes such rows";
    }
    int64_t last = -1;
    while (SkipSpaces()) {
      std::string wrong = ParseFeature(&last);
      if (!wrong.empty()) return wrong;
    }
    rows_->ends.push_back(static_cast<int64_t>(rows_->columns.size()));
    rows_->label_ends.push_back(static_cast<int64_t>(rows_->labels.size()));
    return "";
  }

 private:
  // Returns the token that begins here, shortened for an error message.
  std::string Token() const {
    const char* end = at_;
    while (end != end_ && !IsSpace(*end) && end - at_ < 40) ++end;
    return "'" + std::string(at_, end) + "'";
  }

  bool SkipSpaces() {
    while (at_ != end_ && IsSpace(*at_)) ++at_;
    return at_ != end_;
  }

  bool BeginsWithFeature() const {
    const char* c = at_;
    while (c != end_ && !IsSpace(*c) && *c != ':') ++c;
    return c != end_ && *c == ':';
  }

  bool ParseInteger(int64_t* value) {
    if (at_ != end_ && *at_ == '+') ++at_;
    const auto [end, error] = std::from_chars(at_, end_, *value);
    if (error != std::errc()) return false;
    at_ = end;
    return true;
  }

  std::string ParseLabels(size_t first) {
    const std::string token = Token();
    while (true) {
      int64_t label = 0;
      if (!ParseInteger(&label)) return "got labels " + token + ", wanted integers";
      if (label < 0 || label >= format_.num_labels) {
        return "got label " + std::to_string(label) + ", wanted 0 to " +
               std::to_string(format_.num_labels - 1);
      }
      rows_->labels.push_back(label);
      if (at_ == end_ || IsSpace(*at_)) break;
      if (*at_++ != ',') return "got labels " + token + ", wanted integers";
    }
    const auto begin = rows_->labels.begin() + static_cast<int64_t>(first);
    std::sort(begin, rows_->labels.end());
    const auto twice = std::adjacent_find(begin, rows_->labels.end());
    if (twice == rows_->labels.end()) return "";
    return "got label " + std::to_string(*twice) + " twice";
  }

  std::string ParseFeature(int64_t* last) {
    const std::string_view wanted = ", wanted feature:value";
    const char* const begin = at_;
    const auto wrong = [&] {
      at_ = begin;
      return "got " + Token() + std::string(wanted);
    };
    int64_t feature = 0;
    if (!ParseInteger(&feature) || at_ == end_ || *at_ != ':') return wrong();
    ++at_;
    if (at_ != end_ && *at_ == '+') ++at_;
    double number = 0;  // a number too small for a float becomes 0, or nearly so
    const auto [end, error] = std::from_chars(at_, end_, number);
    const auto value = static_cast<float>(number);
    if (error != std::errc() || !std::isfinite(value)) return wrong();
    at_ = end;
    if (at_ != end_ && !IsSpace(*at_)) return wrong();
    const int64_t column = feature - format_.first_feature;
    if (column < 0 || column >= format_.num_features) {
      return "got feature " + std::to_string(feature) + ", wanted " +
             std::to_string(format_.first_feature) + " to " +
             std::to_string(format_.num_features - 1 + format_.first_feature);
    }
    if (column == *last) return "got feature " + std::to_string(feature) + " twice";
    if (column < *last) {
      return "got feature " + std::to_string(feature) + " after " +
             std::to_string(*last + format_.first_feature) + ", wanted ascending ones";
    }
    *last = column;
    rows_->columns.push_back(column);
    rows_->values.push_back(value);
    return "";
  }

  const char* at_;
  const char* const end_;
  const LibsvmFormat& format_;
  LibsvmRows* const rows_;
};

}  // namespace

std::string ParseLibsvm(std::string_view text, const LibsvmFormat& format,
                        int64_t* line, LibsvmRows* rows) {
  while (!text.empty()) {
    const size_t newline = text.find('\n');
    std::string_view row = text.substr(0, newline);
    text.remove_prefix(newline == text.npos ? text.size() : newline + 1);
    const size_t comment = row.find('#');
    const bool has_comment = comment != row.npos;
    row = row.substr(0, comment);
    const bool blank = std::all_of(row.begin(), row.end(), IsSpace);
    const std::string where = "line " + std::to_string((*line)++) + ": ";
    if (blank && has_comment) continue;
    if (blank) return where + "it is empty";
    const std::string wrong = Line(row, format, rows).Parse();
    if (!wrong.empty()) return where + wrong;
  }
  return "";
}

}  // namespace tensorbow
