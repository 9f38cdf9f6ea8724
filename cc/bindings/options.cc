#include "cc/bindings/options.h"

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cc/cluster/cluster.h"
#include "cc/config/options.h"
#include "cc/session/session_registry.h"
#include "cc/training/synchronisation.h"

namespace tensorbow {

namespace py = ::pybind11;

namespace {

template <typename T>
T Choose(const std::map<std::string, T>& choices, const std::string& name) {
  const auto choice = choices.find(name);
  if (choice == choices.end()) throw py::value_error("unknown choice: " + name);
  return choice->second;
}

// A Python predicate, called from whichever thread starts a run.
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

AdaptiveOptions AdaptiveOptionsOf(const std::map<std::string, double>& values) {
  AdaptiveOptions options;
  if (values.empty()) return options;
  options.mega_batch = static_cast<int64_t>(values.at("mega_batch"));
  options.b_max = static_cast<int64_t>(values.at("b_max"));
  options.b_min = static_cast<int64_t>(values.at("b_min"));
  options.beta = values.at("beta");
  options.perturbation = values.at("perturbation");
  options.threshold = values.at("threshold");
  options.momentum = values.at("momentum");
  options.scales = values.at("scaling") != 0;
  options.normalises = values.at("normalisation") != 0;
  return options;
}

int64_t RegisterOptionsFromPython(
    int learners_per_device, std::vector<int> threads_per_learner, bool tunes_learners,
    int64_t batch_size, const std::string& scheduling, const std::string& algorithm,
    const std::string& centre, double alpha, std::optional<double> momentum,
    int64_t sync_period, double ema_decay, const py::object& restart,
    const std::map<std::string, double>& adaptive, std::set<std::string> shard,
    std::set<std::string> replicate, const std::map<std::string, std::string>& combine,
    const std::map<std::string, std::string>& run_kind, std::optional<int64_t> seed,
    bool pin_threads, const std::string& cuda_graphs, bool reduces_on_host, bool proof,
    bool element_for_each_learner, std::shared_ptr<Cluster> cluster,
    int64_t host_period, std::optional<int> host_chunk) {
  Options options;
  options.learners_per_device = learners_per_device;
  options.threads_per_learner = std::move(threads_per_learner);
  options.tunes_learners = tunes_learners;
  options.batch_size = batch_size;
  options.scheduling =
      Choose<SchedulingPolicy>({{"fcfs", SchedulingPolicy::kFirstComeFirstServed},
                                {"round_robin", SchedulingPolicy::kRoundRobin}},
                               scheduling);
  options.algorithm = ChoiceOfName(algorithm).algorithm;
  if (options.algorithm == Options::Algorithm::kAuto && algorithm != "auto") {
    throw py::value_error("unknown algorithm: " + algorithm);
  }
  options.centre =
      Choose<SmaOptions::Centre>({{"current", SmaOptions::Centre::kCurrent},
                                  {"lagging", SmaOptions::Centre::kLagging}},
                                 centre);
  options.alpha = alpha;
  options.momentum = momentum;
  options.sync_period = sync_period;
  options.ema_decay = ema_decay;
  options.adaptive = AdaptiveOptionsOf(adaptive);
  if (py::isinstance<py::str>(restart)) {
    options.restart =
        Choose<Options::Restart>({{"never", Options::Restart::kNever},
                                  {"lr_drop", Options::Restart::kOnLearningRateDrop}},
                                 py::cast<std::string>(restart));
  } else {
    options.restart = Options::Restart::kCallback;
    options.restart_callback = Predicate(py::reinterpret_borrow<py::function>(restart));
  }
  options.shard = std::move(shard);
  options.replicate = std::move(replicate);
  for (const auto& [tensor, how] : combine) {
    options.combine[tensor] = Choose<Combination>({{"mean", Combination::kMean},
                                                   {"sum", Combination::kSum},
                                                   {"concat", Combination::kConcat},
                                                   {"first", Combination::kFirst},
                                                   {"stack", Combination::kStack}},
                                                  how);
  }
  for (const auto& [name, kind] : run_kind) {
    options.run_kind[name] =
        Choose<RunAnalysis::Kind>({{"read", RunAnalysis::Kind::kRead},
                                   {"write", RunAnalysis::Kind::kWrite},
                                   {"learning", RunAnalysis::Kind::kLearning}},
                                  kind);
  }
  options.seed = seed;
  options.hosts = std::move(cluster);
  options.host_period = host_period;
  options.host_chunks.searched = !host_chunk.has_value();
  options.host_chunks.gradients = host_chunk.value_or(0);
  options.reduces_on_host = reduces_on_host;
  options.proof = proof;
  options.element_for_each_learner = element_for_each_learner;
  options.pin_threads = pin_threads;
  options.task_recording =
      Choose<Options::TaskRecording>({{"auto", Options::TaskRecording::kAuto},
                                      {"on", Options::TaskRecording::kOn},
                                      {"off", Options::TaskRecording::kOff}},
                                     cuda_graphs);
  options.collect_warnings = true;
  return RegisterOptions(std::move(options));
}

}  // namespace

void DefineOptions(py::module_* m) {
  m->def("register_options", &RegisterOptionsFromPython, py::kw_only(),
         py::arg("learners_per_device"), py::arg("threads_per_learner"),
         py::arg("tunes_learners"), py::arg("batch_size"), py::arg("scheduling"),
         py::arg("algorithm"), py::arg("centre"), py::arg("alpha"), py::arg("momentum"),
         py::arg("sync_period"), py::arg("ema_decay"), py::arg("restart"),
         py::arg("adaptive"), py::arg("shard"), py::arg("replicate"),
         py::arg("combine"), py::arg("run_kind"), py::arg("seed"),
         py::arg("pin_threads"), py::arg("cuda_graphs"), py::arg("reduces_on_host"),
         py::arg("proof"), py::arg("element_for_each_learner"), py::arg("cluster"),
         py::arg("host_period"), py::arg("host_chunk"),
         "Keeps options for the session to be created; returns its number.");
}

}  // namespace tensorbow
