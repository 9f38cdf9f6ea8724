// Reads rows of the LIBSVM format with any number of labels, as in the extreme
// classification repository: `l1,l2,… f:v f:v …`, one row a line, `#` starts a comment.
// No TensorFlow. Pure function.
#ifndef TENSORBOW_CC_DATA_LIBSVM_H_
#define TENSORBOW_CC_DATA_LIBSVM_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tensorbow {

struct LibsvmFormat {
  int64_t num_features = 0;
  int64_t num_labels = 0;
  int64_t first_feature = 0;  // the number of the first column, 0 or 1
  bool allows_no_labels = false;
};

// Compressed sparse rows: row i has columns[ends[i - 1]] to columns[ends[i] - 1],
// ascending, from 0. Labels are stored the same way.
struct LibsvmRows {
  std::vector<int64_t> ends;
  std::vector<int64_t> columns;
  std::vector<float> values;
  std::vector<int64_t> label_ends;
  std::vector<int64_t> labels;
};

// Appends the rows of whole lines, the first of which is number `line`; sets `*line` to
// the number after the last. Returns an error that names the line, or an empty text.
std::string ParseLibsvm(std::string_view text, const LibsvmFormat& format,
                        int64_t* line, LibsvmRows* rows);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_DATA_LIBSVM_H_
