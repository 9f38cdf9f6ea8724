#include "cc/bindings/libsvm.h"

#include <pybind11/numpy.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cc/data/libsvm.h"

namespace tensorbow {

namespace py = ::pybind11;

namespace {

// Returns an array that owns the elements of the vector.
template <typename T>
py::array_t<T> ToArray(std::vector<T> values) {
  auto* const owned = new std::vector<T>(std::move(values));
  const py::capsule owner(owned,
                          [](void* v) { delete static_cast<std::vector<T>*>(v); });
  return py::array_t<T>(static_cast<py::ssize_t>(owned->size()), owned->data(), owner);
}

py::tuple Parse(const py::bytes& text, int64_t line, int64_t num_features,
                int64_t num_labels, int64_t first_feature, bool allows_no_labels) {
  const auto view = static_cast<std::string_view>(text);
  const LibsvmFormat format{num_features, num_labels, first_feature, allows_no_labels};
  LibsvmRows rows;
  std::string wrong;
  {
    const py::gil_scoped_release no_gil;
    wrong = ParseLibsvm(view, format, &line, &rows);
  }
  if (!wrong.empty()) throw py::value_error(wrong);
  return py::make_tuple(
      line, ToArray(std::move(rows.ends)), ToArray(std::move(rows.columns)),
      ToArray(std::move(rows.values)), ToArray(std::move(rows.label_ends)),
      ToArray(std::move(rows.labels)));
}

}  // namespace

void DefineLibsvm(py::module_* m) {
  m->def("parse_libsvm", &Parse, py::arg("text"), py::arg("line"), py::kw_only(),
         py::arg("num_features"), py::arg("num_labels"), py::arg("first_feature"),
         py::arg("allows_no_labels"),
         "The number of the next line, ends of rows, columns, values, ends of labels, "
         "labels; ValueError says what is wrong with which line.");
}

}  // namespace tensorbow
