// The Python module tensorbow._native: options in, numbers and values out. It is thin:
// Python checks all arguments of users, and every error of the runtime becomes
// TensorFlow's own exception type.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "cc/bindings/cluster.h"
#include "cc/bindings/errors.h"
#include "cc/bindings/libsvm.h"
#include "cc/bindings/options.h"
#include "cc/bindings/prepared_run.h"
#include "cc/bindings/row_types.h"
#include "cc/bindings/session_handle.h"
#include "cc/device/accelerator.h"
#include "cc/session/session_registry.h"
#include "cc/support/cpus.h"

namespace tensorbow {

namespace py = ::pybind11;

// The marker that tensorbow/_runtime/loader.py looks for before it loads the file.
extern const char kBuiltFor[];
__attribute__((used)) const char kBuiltFor[] =
    "TensorBow is built for TensorFlow " TENSORBOW_TENSORFLOW_VERSION;

PYBIND11_MODULE(_native, m) {
  m.doc() = "The TensorBow runtime; use the tensorbow package instead.";
  m.attr("tensorflow_version") = TENSORBOW_TENSORFLOW_VERSION;
  m.attr("compiler") = __VERSION__;

  DefineCluster(&m);
  DefineLibsvm(&m);
  DefineOptions(&m);
  DefineRowTypes(&m);
  m.def("unregister_options", &UnregisterOptions, py::arg("number"));
  m.def("num_cores", &NumCores,
        "CPU cores this process may use: of its affinity mask, as many as its control "
        "groups grant time for.");
  m.def(
      "num_accelerators",
      [] { return Accelerators() == nullptr ? 0 : Accelerators()->num_devices(); },
      "GPUs that learners may use: 0 unless the GPU library is loaded.");

  py::class_<PreparedRun>(m, "PreparedRun")
      .def(
          "run",
          [](PreparedRun& run, const std::vector<py::array>& feeds,
             std::vector<int64_t> task_rows) {
            std::optional<py::list> fetches;
            RaiseIfError(run.Run(feeds, std::move(task_rows), &fetches));
            return fetches;
          },
          py::arg("feeds"), py::arg("task_rows") = std::vector<int64_t>(),
          "The fetches; None if it has to be run in another way.")
      .def(
          "explain",
          [](PreparedRun& run, const std::vector<py::array>& feeds) {
            std::optional<py::dict> explanation;
            RaiseIfError(run.Explain(feeds, &explanation));
            return explanation;
          },
          py::arg("feeds"))
      .def_property_readonly("has_warnings", &PreparedRun::has_warnings);

  DefineSessionHandle(&m);
}

}  // namespace tensorbow
