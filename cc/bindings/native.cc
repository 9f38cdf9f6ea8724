// The Python module tensorbow._native: options in, numbers and values out. Thin: every
// check of what a user passes is made in Python, every error of the runtime becomes
// TensorFlow's own exception type.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cc/bindings/options.h"
#include "cc/bindings/prepared_run.h"
#include "cc/device/accelerator.h"
#include "cc/session/session_registry.h"
#include "cc/support/cpus.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor.pb.h"

namespace tensorbow {
namespace {

namespace py = ::pybind11;
namespace tf = ::tensorflow;

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

// The session of a number, as Python sees it; does not own it.
class SessionHandle {
 public:
  explicit SessionHandle(int64_t number) : number_(number) {}

  void With(const std::function<absl::Status(TensorBowSession*)>& f) const {
    absl::Status status;
    {
      py::gil_scoped_release no_gil;
      status = WithSession(number_, f);
    }
    RaiseIfError(status);
  }

  template <typename F>
  auto Get(F f) const {
    decltype(f(static_cast<TensorBowSession*>(nullptr))) value;
    With([&](TensorBowSession* session) {
      value = f(session);
      return absl::OkStatus();
    });
    return value;
  }

  // Null unless learners execute the run and all its types are numbers or strings.
  std::unique_ptr<PreparedRun> Prepare(RunSpec spec, const std::vector<int>& feed_types,
                                       const std::vector<int>& fetch_types,
                                       std::vector<py::dtype> fetch_arrays) const {
    std::vector<tf::DataType> types;
    for (const std::vector<int>* some : {&feed_types, &fetch_types}) {
      for (int type : *some) {
        const auto data_type = static_cast<tf::DataType>(type);
        if (!tf::DataTypeCanUseMemcpy(data_type) && data_type != tf::DT_STRING) {
          return nullptr;
        }
      }
    }
    for (int type : feed_types) types.push_back(static_cast<tf::DataType>(type));
    std::weak_ptr<const TensorBowSession::Signature> signature;
    With([&](TensorBowSession* session) {
      signature = session->FindLearning(spec);
      return absl::OkStatus();
    });
    if (signature.expired()) return nullptr;
    return std::make_unique<PreparedRun>(number_, std::move(signature),
                                         std::move(types), std::move(fetch_arrays));
  }

  py::dict Describe(RunSpec spec) const {
    const auto description = Get(
        [&](TensorBowSession* session) { return session->Describe(std::move(spec)); });
    using Kind = RunAnalysis::Kind;
    py::dict facts;
    facts["kind"] = description.kind == Kind::kLearning ? "learning"
                    : description.kind == Kind::kWrite  ? "write"
                                                        : "read";
    facts["learners"] = description.learners;
    facts["why_one_learner"] = description.why_one_learner;
    facts["variable_fetches"] = description.variable_fetches;
    return facts;
  }

  py::dict GetMetrics() const {
    Metrics found;
    With([&](TensorBowSession* session) -> absl::Status {
      TF_ASSIGN_OR_RETURN(found, session->trainer().GetMetrics());
      return absl::OkStatus();
    });
    const ActivityLog::Figures& figures = found.figures;
    py::list learners;
    for (size_t j = 0; j < found.learners.size(); ++j) {
      const ActivityLog::LearnerFigures& learner = figures.learners[j];
      py::dict facts;
      facts["tasks"] = learner.tasks;
      facts["task_seconds"] = py::make_tuple(learner.task.median, learner.task.p95);
      facts["wait_seconds"] = py::make_tuple(learner.wait.median, learner.wait.p95);
      facts["memory_bytes"] = found.learners[j].bytes;
      facts["peak_memory_bytes"] = found.learners[j].peak_bytes;
      facts["spread"] = found.learners[j].spread;
      learners.append(facts);
    }
    py::dict facts;
    facts["runs"] = figures.runs;
    facts["samples"] = figures.samples;
    facts["seconds"] = figures.seconds;
    facts["seconds_in_runs"] = figures.in_runs;
    facts["synchronisation"] = figures.synchronisation;
    facts["learners"] = learners;
    return facts;
  }

  // JSON, or None where nothing is traced.
  std::optional<std::string> StopTrace() const {
    std::unique_ptr<Trace> trace;
    With([&](TensorBowSession* session) {
      trace = session->trainer().activity().StopTrace();
      return absl::OkStatus();
    });
    if (trace == nullptr) return std::nullopt;
    const py::gil_scoped_release no_gil;
    return trace->Json();
  }

  py::bytes LearnerValue(const std::string& variable, int learner) const {
    return Value([&](Trainer& t) { return t.LearnerValue(variable, learner); });
  }
  py::bytes CentralValue(const std::string& variable, bool averaged) const {
    const auto which =
        averaged ? CentralModel::Which::kAverage : CentralModel::Which::kZ;
    return Value([&](Trainer& t) { return t.CentralValue(variable, which); });
  }

 private:
  // A tensor of the trainer's, serialized.
  py::bytes Value(
      const std::function<absl::StatusOr<tf::Tensor>(Trainer& trainer)>& get) const {
    std::string serialized;
    With([&](TensorBowSession* session) -> absl::Status {
      TF_ASSIGN_OR_RETURN(const tf::Tensor value, get(session->trainer()));
      tf::TensorProto proto;
      value.AsProtoTensorContent(&proto);
      serialized = proto.SerializeAsString();
      return absl::OkStatus();
    });
    return py::bytes(serialized);
  }
  const int64_t number_;
};

}  // namespace

PYBIND11_MODULE(_native, m) {
  m.doc() = "The TensorBow runtime; use the tensorbow package instead.";
  m.attr("tensorflow_version") = TENSORBOW_TENSORFLOW_VERSION;
  m.attr("compiler") = __VERSION__;

  DefineOptions(&m);
  m.def("withdraw_options", &WithdrawOptions, py::arg("number"));
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

  py::class_<SessionHandle>(m, "SessionHandle")
      .def(py::init<int64_t>(), py::arg("number"))
      .def_property_readonly("num_learners",
                             [](const SessionHandle& handle) {
                               return handle.Get([](TensorBowSession* session) {
                                 return session->trainer().num_learners();
                               });
                             })
      .def_property_readonly("layout",
                             [](const SessionHandle& handle) {
                               return handle.Get([](TensorBowSession* session) {
                                 const Layout layout = session->trainer().layout();
                                 return std::make_pair(layout.learners, layout.threads);
                               });
                             })
      .def_property_readonly("tunes_learners",
                             [](const SessionHandle& handle) {
                               return handle.Get([](TensorBowSession* session) {
                                 return session->tunes_learners();
                               });
                             })
      .def_property_readonly(
          "tuning",
          [](const SessionHandle& handle) {
            return handle.Get([](TensorBowSession* session) {
              std::vector<std::tuple<int, int, double, double, std::string, bool>> log;
              for (const LayoutTuner::Measurement& m : session->Tuning()) {
                log.emplace_back(m.layout.learners, m.layout.threads,
                                 m.samples_per_second, m.spread, m.note, m.chosen);
              }
              return log;
            });
          })
      .def(
          "set_learners",
          [](const SessionHandle& handle, int learners_per_device,
             std::optional<int> threads) {
            handle.With([=](TensorBowSession* session) {
              return session->SetLearners(learners_per_device, threads);
            });
          },
          py::arg("learners_per_device"), py::arg("threads"))
      .def_property_readonly("metrics", &SessionHandle::GetMetrics)
      .def("start_trace",
           [](const SessionHandle& handle) {
             return handle.Get([](TensorBowSession* session) {
               return session->trainer().activity().StartTrace(NowNanos());
             });
           })
      .def("stop_trace", &SessionHandle::StopTrace)
      .def("end_tuning",
           [](const SessionHandle& handle) {
             handle.With([](TensorBowSession* session) {
               session->EndTuning();
               return absl::OkStatus();
             });
           })
      .def_property_readonly("learner_devices",
                             [](const SessionHandle& handle) {
                               return handle.Get([](TensorBowSession* session) {
                                 return session->trainer().LearnerDevices();
                               });
                             })
      .def_property_readonly("iterations",
                             [](const SessionHandle& handle) {
                               return handle.Get([](TensorBowSession* session) {
                                 return session->trainer().iterations();
                               });
                             })
      .def_property_readonly("learning_tasks",
                             [](const SessionHandle& handle) {
                               return handle.Get([](TensorBowSession* session) {
                                 return session->trainer().learning_tasks();
                               });
                             })
      .def_property_readonly("samples_seen",
                             [](const SessionHandle& handle) {
                               return handle.Get([](TensorBowSession* session) {
                                 return session->trainer().samples_seen();
                               });
                             })
      .def(
          "prepare",
          [](const SessionHandle& handle, std::vector<std::string> feeds,
             const std::vector<int>& feed_types, std::vector<std::string> fetches,
             const std::vector<int>& fetch_types, std::vector<py::dtype> fetch_arrays,
             std::vector<std::string> targets) {
            RunSpec spec;
            spec.feeds = std::move(feeds);
            spec.fetches = std::move(fetches);
            spec.targets = std::move(targets);
            return handle.Prepare(std::move(spec), feed_types, fetch_types,
                                  std::move(fetch_arrays));
          },
          py::kw_only(), py::arg("feeds"), py::arg("feed_types"), py::arg("fetches"),
          py::arg("fetch_types"), py::arg("fetch_arrays"), py::arg("targets"))
      .def("restart",
           [](const SessionHandle& handle) {
             handle.With([](TensorBowSession* session) {
               session->trainer().Restart();
               return absl::OkStatus();
             });
           })
      .def_property_readonly("synchroniser",
                             [](const SessionHandle& handle) {
                               return handle.Get([](TensorBowSession* session) {
                                 return session->trainer().choice().name();
                               });
                             })
      .def(
          "describe_run",
          [](const SessionHandle& handle, std::vector<std::string> feeds,
             std::vector<std::string> fetches, std::vector<std::string> targets) {
            RunSpec spec{std::move(feeds), std::move(fetches), std::move(targets)};
            return handle.Describe(std::move(spec));
          },
          py::arg("feeds"), py::arg("fetches"), py::arg("targets"))
      .def(
          "add_trainable",
          [](const SessionHandle& handle, const std::vector<std::string>& variables) {
            handle.With([&](TensorBowSession* session) {
              session->AddTrainable(variables);
              return absl::OkStatus();
            });
          },
          py::arg("variables"))
      .def(
          "add_sparse_feeds",
          [](const SessionHandle& handle, const std::vector<std::string>& tensors) {
            handle.With([&](TensorBowSession* session) {
              session->AddSparseFeeds(tensors);
              return absl::OkStatus();
            });
          },
          py::arg("tensors"))
      .def("take_warnings",
           [](const SessionHandle& handle) {
             return handle.Get([](TensorBowSession* session) {
               return session->has_warnings() ? session->TakeWarnings()
                                              : std::vector<std::string>();
             });
           })
      .def("central_value", &SessionHandle::CentralValue, py::arg("variable"),
           py::arg("averaged"), "A serialized TensorProto.")
      .def(
          "save_state",
          [](const SessionHandle& handle, const std::string& path) {
            handle.With(
                [&](TensorBowSession* session) { return session->SaveState(path); });
          },
          py::arg("path"))
      .def(
          "load_state",
          [](const SessionHandle& handle, const std::string& path) {
            handle.With(
                [&](TensorBowSession* session) { return session->LoadState(path); });
          },
          py::arg("path"))
      .def("learner_value", &SessionHandle::LearnerValue, py::arg("variable"),
           py::arg("learner"), "A serialized TensorProto.");
}

}  // namespace tensorbow
