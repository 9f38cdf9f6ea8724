#include "cc/bindings/session_handle.h"

#include <pybind11/stl.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cc/bindings/errors.h"
#include "cc/bindings/prepared_run.h"
#include "cc/session/session_registry.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor.pb.h"

namespace tensorbow {
namespace {

namespace py = ::pybind11;
namespace tf = ::tensorflow;

// The session of a number, for Python; does not own it.
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

  // Returns null unless learners execute the run and all its types are numbers or
  // strings.
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
    facts["element"] = description.element;
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
    facts["host_chunk"] = found.host_chunk;
    return facts;
  }

  // Returns JSON, or None if nothing is traced.
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
  // Returns a tensor of the trainer's, serialized.
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

using Class = py::class_<SessionHandle>;

// Makes a method of the handle that returns `get(session)`.
template <typename F>
auto Getting(F get) {
  return [get](const SessionHandle& handle) { return handle.Get(get); };
}

// Makes a method of the handle that calls `act(session, arguments…)`, which returns a
// status or nothing.
template <typename... Arguments, typename F>
auto Doing(F act) {
  return [act](const SessionHandle& handle, const Arguments&... arguments) {
    handle.With([&](TensorBowSession* session) -> absl::Status {
      using Result = decltype(act(session, arguments...));
      if constexpr (std::is_void_v<Result>) {
        act(session, arguments...);
        return absl::OkStatus();
      } else {
        return act(session, arguments...);
      }
    });
  };
}

using Log = std::vector<std::tuple<int, int, double, double, std::string, bool>>;

Log TuningOf(TensorBowSession* session) {
  Log log;
  for (const LayoutTuner::Measurement& m : session->Tuning()) {
    log.emplace_back(m.layout.learners, m.layout.threads, m.samples_per_second,
                     m.spread, m.note, m.chosen);
  }
  return log;
}

// Returns lists by mega-batch and learner: sizes, rates, updates, rows, weights.
auto MegaBatchesOf(TensorBowSession* session) {
  using Counts = std::vector<int64_t>;
  using Numbers = std::vector<double>;
  std::vector<std::tuple<Counts, Numbers, Counts, Counts, Numbers>> all;
  for (const MegaBatches::Record& r : session->trainer().MegaBatchRecords()) {
    all.emplace_back(r.sizes, r.rates, r.updates, r.rows, r.weights);
  }
  return all;
}

void DefineLearners(Class* handle) {
  using S = TensorBowSession;
  handle
      ->def_property_readonly("num_learners",
                              Getting([](S* s) { return s->trainer().num_learners(); }))
      .def_property_readonly("layout", Getting([](S* s) {
                               const Layout layout = s->trainer().layout();
                               return std::make_pair(
                                   layout.learners,
                                   layout.threads_of_each.empty()
                                       ? std::vector<int>{layout.threads}
                                       : layout.threads_of_each);
                             }))
      .def("set_learners",
           Doing<int, std::vector<int>>(
               [](S* s, int learners_per_device, const std::vector<int>& threads) {
                 return s->SetLearners(learners_per_device, threads);
               }),
           py::arg("learners_per_device"), py::arg("threads"))
      .def_property_readonly("tunes_learners",
                             Getting([](S* s) { return s->tunes_learners(); }))
      .def_property_readonly("tuning", Getting(&TuningOf))
      .def_property_readonly("mega_batches", Getting(&MegaBatchesOf))
      .def("end_tuning", Doing([](S* s) { s->EndTuning(); }))
      .def_property_readonly("learner_devices", Getting([](S* s) {
                               return s->trainer().LearnerDevices();
                             }));
}

void DefineProgress(Class* handle) {
  using S = TensorBowSession;
  handle
      ->def_property_readonly("iterations",
                              Getting([](S* s) { return s->trainer().iterations(); }))
      .def_property_readonly("learning_tasks",
                             Getting([](S* s) { return s->trainer().counts().tasks; }))
      .def_property_readonly("samples_seen",
                             Getting([](S* s) { return s->trainer().counts().rows; }))
      .def_property_readonly("synchroniser",
                             Getting([](S* s) { return s->trainer().choice().name(); }))
      .def_property_readonly("metrics", &SessionHandle::GetMetrics)
      .def("start_trace",
           Getting([](S* s) { return s->trainer().activity().StartTrace(NowNanos()); }))
      .def("stop_trace", &SessionHandle::StopTrace)
      .def("take_warnings", Getting([](S* s) {
             return s->has_warnings() ? s->TakeWarnings() : std::vector<std::string>();
           }));
}

void DefineRuns(Class* handle) {
  using S = TensorBowSession;
  using Names = std::vector<std::string>;
  handle
      ->def(
          "prepare",
          [](const SessionHandle& handle, Names feeds,
             const std::vector<int>& feed_types, Names fetches,
             const std::vector<int>& fetch_types, std::vector<py::dtype> fetch_arrays,
             Names targets) {
            RunSpec spec{std::move(feeds), std::move(fetches), std::move(targets)};
            return handle.Prepare(std::move(spec), feed_types, fetch_types,
                                  std::move(fetch_arrays));
          },
          py::kw_only(), py::arg("feeds"), py::arg("feed_types"), py::arg("fetches"),
          py::arg("fetch_types"), py::arg("fetch_arrays"), py::arg("targets"))
      .def(
          "describe_run",
          [](const SessionHandle& handle, Names feeds, Names fetches, Names targets) {
            RunSpec spec{std::move(feeds), std::move(fetches), std::move(targets)};
            return handle.Describe(std::move(spec));
          },
          py::arg("feeds"), py::arg("fetches"), py::arg("targets"))
      .def("add_trainable",
           Doing<Names>([](S* s, const Names& names) { s->AddTrainable(names); }),
           py::arg("variables"))
      .def("adopt_variable",
           Doing<std::string, int64_t>(
               [](S* s, const std::string& shared_name, int64_t number) {
                 return s->AdoptVariable(shared_name, number);
               }),
           py::arg("shared_name"), py::arg("number"))
      .def("add_sparse_feeds",
           Doing<std::vector<Names>>(
               [](S* s, const std::vector<Names>& parts) { s->AddSparseFeeds(parts); }),
           py::arg("tensors"));
}

void DefineState(Class* handle) {
  using S = TensorBowSession;
  using Path = std::string;
  handle->def("close", Doing([](S* s) { return s->Close(); }))
      .def("restart", Doing([](S* s) { s->trainer().Restart(); }))
      .def("merge", Doing([](S* s) { return s->trainer().FlushMegaBatch(); }))
      .def("save_state",
           Doing<Path>([](S* s, const Path& path) { return s->SaveState(path); }),
           py::arg("path"))
      .def("load_state",
           Doing<Path>([](S* s, const Path& path) { return s->LoadState(path); }),
           py::arg("path"))
      .def("central_value", &SessionHandle::CentralValue, py::arg("variable"),
           py::arg("averaged"), "A serialized TensorProto.")
      .def("learner_value", &SessionHandle::LearnerValue, py::arg("variable"),
           py::arg("learner"), "A serialized TensorProto.");
}

}  // namespace

void DefineSessionHandle(py::module_* m) {
  Class handle(*m, "SessionHandle");
  handle.def(py::init<int64_t>(), py::arg("number"));
  DefineLearners(&handle);
  DefineProgress(&handle);
  DefineRuns(&handle);
  DefineState(&handle);
}

}  // namespace tensorbow
