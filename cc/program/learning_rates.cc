#include "cc/program/learning_rates.h"

#include <algorithm>

#include "cc/feeds/feeds.h"
#include "cc/learner/specialise.h"
#include "cc/passes/task/build_task.h"

namespace tensorbow {

namespace tf = ::tensorflow;

absl::Status LearningRates::Compile(const ProgramGraph& graph,
                                    const std::vector<std::string>& feeds,
                                    const std::vector<std::string>& rates,
                                    const tf::SessionOptions& options,
                                    LearnerGroup* learners) {
  RunSpec spec;
  spec.feeds = feeds;
  for (const std::string& rate : rates) {
    const auto feed = std::find(feeds.begin(), feeds.end(), rate);
    if (feed != feeds.end()) {
      fed_.push_back(static_cast<int>(feed - feeds.begin()));
    } else {
      spec.fetches.push_back(rate);
    }
  }
  if (spec.fetches.empty()) return absl::OkStatus();
  tf::DeviceSet device_set;
  const TaskDevices devices = learners->Devices(&device_set);
  TaskGraph task;
  TF_RETURN_IF_ERROR(LowerTask(graph, spec, options, devices, &task));
  TF_RETURN_IF_ERROR(DivideTask(graph, spec, options, devices, &task));
  TF_ASSIGN_OR_RETURN(TaskGraph own, SpecialiseTaskGraph(task, Specialisation()));
  TF_ASSIGN_OR_RETURN(computed_, (*learners)[0].Compile(std::move(own)));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<double>> LearningRates::Evaluate(
    const std::vector<tf::Tensor>& feeds, Learner* learner) const {
  std::vector<tf::Tensor> values;
  if (computed_ != nullptr) {
    std::vector<tf::Tensor> aligned;
    for (const tf::Tensor& feed : feeds) aligned.push_back(Aligned(feed));
    tf::CancellationManager cancellation;
    Learner::Task task;
    task.feeds = &aligned;
    task.cancellation = &cancellation;
    TF_RETURN_IF_ERROR(learner->Execute(*computed_, task, &values));
    TF_RETURN_IF_ERROR(learner->Finish());
  }
  for (int feed : fed_) values.push_back(Aligned(feeds[feed]));
  std::vector<double> rates;
  for (const tf::Tensor& value : values) {
    double rate = 0;
    if (value.NumElements() == 1) {
      if (value.dtype() == tf::DT_FLOAT) rate = value.flat<float>()(0);
      if (value.dtype() == tf::DT_DOUBLE) rate = value.flat<double>()(0);
    }
    rates.push_back(rate);
  }
  return rates;
}

void RateHistory::Record(std::vector<double> rates) {
  for (size_t i = 0; last_.size() == rates.size() && i < rates.size(); ++i) {
    dropped_ |= last_[i] > 0 && rates[i] <= 0.5 * last_[i];
  }
  last_ = std::move(rates);
}

}  // namespace tensorbow
