#include "cc/bindings/options.h"

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cc/cluster/cluster.h"
#include "cc/config/options.h"
#include "cc/session/session_registry.h"

namespace tensorbow {

namespace py = ::pybind11;

template <typename Enum>
using EnumNames = std::vector<std::pair<std::string, Enum>>;

// The names that Python gives the values of an enum.
static EnumNames<SchedulingPolicy> NamesOf(SchedulingPolicy) {
  return {{"fcfs", SchedulingPolicy::kFirstComeFirstServed},
          {"round_robin", SchedulingPolicy::kRoundRobin}};
}

static EnumNames<Options::Algorithm> NamesOf(Options::Algorithm) {
  return {{"auto", Options::Algorithm::kAuto},
          {"SMA", Options::Algorithm::kSma},
          {"SSGD", Options::Algorithm::kSsgd},
          {"Independent", Options::Algorithm::kIndependent},
          {"AdaptiveSGD", Options::Algorithm::kAdaptive}};
}

static EnumNames<SmaOptions::Centre> NamesOf(SmaOptions::Centre) {
  return {{"current", SmaOptions::Centre::kCurrent},
          {"lagging", SmaOptions::Centre::kLagging}};
}

static EnumNames<Options::Restart> NamesOf(Options::Restart) {
  return {{"never", Options::Restart::kNever},
          {"lr_drop", Options::Restart::kOnLearningRateDrop}};
}

static EnumNames<Combination> NamesOf(Combination) {
  return {{"mean", Combination::kMean},
          {"sum", Combination::kSum},
          {"concat", Combination::kConcat},
          {"first", Combination::kFirst},
          {"stack", Combination::kStack}};
}

static EnumNames<RunAnalysis::Kind> NamesOf(RunAnalysis::Kind) {
  return {{"read", RunAnalysis::Kind::kRead},
          {"write", RunAnalysis::Kind::kWrite},
          {"learning", RunAnalysis::Kind::kLearning}};
}

static EnumNames<Options::TaskRecording> NamesOf(Options::TaskRecording) {
  return {{"auto", Options::TaskRecording::kAuto},
          {"on", Options::TaskRecording::kOn},
          {"off", Options::TaskRecording::kOff}};
}

// Converts an enum from and to its name, as a member and inside containers.
template <typename Enum>
struct NamedEnumCaster {
  PYBIND11_TYPE_CASTER(Enum, py::detail::const_name("str"));

  bool load(py::handle source, bool) {
    if (!py::isinstance<py::str>(source)) return false;
    const auto given = py::cast<std::string>(source);
    for (const auto& [name, choice] : NamesOf(Enum())) {
      if (name != given) continue;
      value = choice;
      return true;
    }
    return false;
  }

  static py::handle cast(Enum choice, py::return_value_policy, py::handle) {
    for (const auto& [name, known] : NamesOf(choice)) {
      if (known == choice) return py::str(name).release();
    }
    return py::none().release();
  }
};

}  // namespace tensorbow

namespace pybind11::detail {

template <>
struct type_caster<tensorbow::SchedulingPolicy>
    : tensorbow::NamedEnumCaster<tensorbow::SchedulingPolicy> {};
template <>
struct type_caster<tensorbow::Options::Algorithm>
    : tensorbow::NamedEnumCaster<tensorbow::Options::Algorithm> {};
template <>
struct type_caster<tensorbow::SmaOptions::Centre>
    : tensorbow::NamedEnumCaster<tensorbow::SmaOptions::Centre> {};
template <>
struct type_caster<tensorbow::Options::Restart>
    : tensorbow::NamedEnumCaster<tensorbow::Options::Restart> {};
template <>
struct type_caster<tensorbow::Combination>
    : tensorbow::NamedEnumCaster<tensorbow::Combination> {};
template <>
struct type_caster<tensorbow::RunAnalysis::Kind>
    : tensorbow::NamedEnumCaster<tensorbow::RunAnalysis::Kind> {};
template <>
struct type_caster<tensorbow::Options::TaskRecording>
    : tensorbow::NamedEnumCaster<tensorbow::Options::TaskRecording> {};

}  // namespace pybind11::detail

namespace tensorbow {
namespace {

// Returns a Python predicate as one that any thread may call that starts a run.
std::function<absl::StatusOr<bool>(int64_t)> Predicate(py::function function) {
  // Freed with the interpreter's lock held, wherever the last copy goes.
  std::shared_ptr<py::function> shared(new py::function(std::move(function)),
                                       [](py::function* f) {
                                         py::gil_scoped_acquire gil;
                                         delete f;
                                       });
  return [shared](int64_t iterations) -> absl::StatusOr<bool> {
    py::gil_scoped_acquire gil;
    try {
      return py::cast<bool>(py::bool_((*shared)(iterations)));
    } catch (py::error_already_set& e) {
      return absl::UnknownError(std::string("restart= raised ") + e.what());
    }
  };
}

// Sets a name of Options::Restart, or a predicate.
void SetRestart(Options* options, const py::object& restart) {
  if (py::isinstance<py::str>(restart)) {
    options->restart = py::cast<Options::Restart>(restart);
    return;
  }
  options->restart = Options::Restart::kCallback;
  options->restart_callback = Predicate(py::cast<py::function>(restart));
}

}  // namespace

void DefineOptions(py::module_* m) {
  py::class_<AdaptiveOptions>(*m, "AdaptiveOptions")
      .def(py::init<>())
      .def_readwrite("mega_batch", &AdaptiveOptions::mega_batch)
      .def_readwrite("b_max", &AdaptiveOptions::b_max)
      .def_readwrite("b_min", &AdaptiveOptions::b_min)
      .def_readwrite("beta", &AdaptiveOptions::beta)
      .def_readwrite("perturbation", &AdaptiveOptions::perturbation)
      .def_readwrite("threshold", &AdaptiveOptions::threshold)
      .def_readwrite("momentum", &AdaptiveOptions::momentum)
      .def_readwrite("scaling", &AdaptiveOptions::scales)
      .def_readwrite("normalisation", &AdaptiveOptions::normalises);

  py::class_<Options>(*m, "Options", "The choices for one session.")
      .def(py::init<>())
      .def_readwrite("learners_per_device", &Options::learners_per_device)
      .def_readwrite("threads_per_learner", &Options::threads_per_learner)
      .def_readwrite("tunes_learners", &Options::tunes_learners)
      .def_readwrite("one_step", &Options::one_step)
      .def_readwrite("batch_size", &Options::batch_size)
      .def_readwrite("element_for_each_learner", &Options::element_for_each_learner)
      .def_readwrite("scheduling", &Options::scheduling)
      .def_readwrite("algorithm", &Options::algorithm)
      .def_readwrite("centre", &Options::centre)
      .def_readwrite("alpha", &Options::alpha)
      .def_readwrite("momentum", &Options::momentum)
      .def_readwrite("sync_period", &Options::sync_period)
      .def_readwrite("ema_decay", &Options::ema_decay)
      .def_readwrite("adaptive", &Options::adaptive)
      .def_property("restart", nullptr,
                    [](Options& options, const py::object& restart) {
                      SetRestart(&options, restart);
                    })
      .def_property("hosts", nullptr,
                    [](Options& options, std::shared_ptr<Cluster> cluster) {
                      options.hosts = std::move(cluster);
                    })
      .def_readwrite("host_period", &Options::host_period)
      .def_property(  // None: the number is searched
          "host_chunk", nullptr,
          [](Options& options, std::optional<int> gradients) {
            options.host_chunks.searched = !gradients.has_value();
            options.host_chunks.gradients = gradients.value_or(0);
          })
      .def_readwrite("shard", &Options::shard)
      .def_readwrite("replicate", &Options::replicate)
      .def_readwrite("combine", &Options::combine)
      .def_readwrite("run_kind", &Options::run_kind)
      .def_readwrite("proof", &Options::proof)
      .def_readwrite("seed", &Options::seed)
      .def_readwrite("pin_threads", &Options::pin_threads)
      .def_readwrite("task_recording", &Options::task_recording)
      .def_readwrite("reduces_on_host", &Options::reduces_on_host)
      .def_readwrite("collect_warnings", &Options::collect_warnings);

  m->def("register_options", &RegisterOptions, py::arg("options"),
         "Keeps a copy for the session to be created; returns its number.");
}

}  // namespace tensorbow
