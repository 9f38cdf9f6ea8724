#include "cc/bindings/errors.h"

#include <pybind11/pybind11.h>

#include <string>

namespace tensorbow {

namespace py = ::pybind11;

void RaiseIfError(const absl::Status& status) {
  if (status.ok()) return;
  const py::object error =
      py::module_::import("tensorflow.python.framework.errors_impl")
          .attr("_make_specific_exception")(py::none(), py::none(),
                                            std::string(status.message()),
                                            static_cast<int>(status.code()));
  PyErr_SetObject(py::type::of(error).ptr(), error.ptr());
  throw py::error_already_set();
}

}  // namespace tensorbow
