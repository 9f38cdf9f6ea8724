#include "cc/bindings/cluster.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "cc/bindings/errors.h"
#include "cc/cluster/cluster.h"

namespace tensorbow {

namespace py = ::pybind11;

namespace {

// A sum, with the cluster that it belongs to, which it keeps alive.
struct SumHandle {
  std::shared_ptr<Cluster> cluster;
  std::unique_ptr<HostSum> sum;
  py::dtype dtype;
  py::ssize_t size;

  void Start(const py::array& values) {
    if (!values.dtype().is(dtype) || values.size() != size) {
      throw py::value_error("start: wanted an array of the sum's size and dtype");
    }
    const py::array dense = py::array::ensure(values, py::array::c_style);
    std::memcpy(sum->data(), dense.data(), dense.nbytes());
    sum->Start();
  }

  py::array Await() {
    std::string error;
    {
      const py::gil_scoped_release waiting;
      error = sum->Await();
    }
    if (!error.empty()) RaiseIfError(absl::UnavailableError(error));
    return py::array(dtype, size, sum->data());
  }
};

Hosts::Type TypeOf(const py::dtype& dtype) {
  if (dtype.is(py::dtype::of<float>())) return Hosts::Type::kFloat;
  if (dtype.is(py::dtype::of<double>())) return Hosts::Type::kDouble;
  if (dtype.is(py::dtype::of<int64_t>())) return Hosts::Type::kInt64;
  throw py::type_error("new_sum: wanted float32, float64 or int64");
}

}  // namespace

void DefineCluster(py::module_* m) {
  py::class_<SumHandle>(*m, "HostSum", "An array that is added up over the hosts.")
      .def("start", &SumHandle::Start, py::arg("values"),
           "Starts a sum of this host's values and the others'.")
      .def("wait", &SumHandle::Await, "The sum; UnavailableError if it failed.");

  py::class_<Cluster, std::shared_ptr<Cluster>>(*m, "Cluster",
                                                "The hosts of a cluster.")
      .def_property_readonly("size", &Cluster::size)
      .def_property_readonly("rank", &Cluster::rank)
      .def("fail", &Cluster::Fail, py::arg("why"), "Ends it, for all hosts.")
      .def("await_told_others", &Cluster::AwaitToldOthers,
           py::call_guard<py::gil_scoped_release>(),
           "Until the other hosts know of fail(), or do not answer.")
      .def(
          "new_sum",
          [](const std::shared_ptr<Cluster>& cluster, const py::dtype& dtype,
             py::ssize_t size) {
            return SumHandle{cluster, cluster->NewSum(TypeOf(dtype), size), dtype,
                             size};
          },
          py::arg("dtype"), py::arg("size"),
          "An array of so many elements that is added up over the hosts.");

  m->def(
      "join_cluster",
      [](std::vector<std::string> addresses, int rank, double start_limit_seconds,
         double hang_limit_seconds, bool elastic) {
        Cluster::Settings settings;
        settings.addresses = std::move(addresses);
        settings.rank = rank;
        settings.start_limit = absl::Seconds(start_limit_seconds);
        settings.hang_limit = absl::Seconds(hang_limit_seconds);
        settings.elastic = elastic;
        absl::StatusOr<std::shared_ptr<Cluster>> joined;
        {
          const py::gil_scoped_release waiting;
          joined = Cluster::Join(settings);
        }
        RaiseIfError(joined.status());
        return *std::move(joined);
      },
      py::arg("addresses"), py::arg("rank"), py::arg("start_limit_seconds"),
      py::arg("hang_limit_seconds"), py::arg("elastic") = false,
      "The process's cluster, once all hosts are there.");
}

}  // namespace tensorbow
