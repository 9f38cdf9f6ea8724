#include "cc/cluster/cluster.h"

#include <algorithm>
#include <utility>

#include "absl/base/const_init.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "cc/cluster/cluster_sum.h"
#include "tensorflow/core/framework/node_def_builder.h"
#include "tensorflow/core/public/version.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

constexpr absl::Duration kWatchInterval = absl::Seconds(1);
constexpr absl::Duration kGreetInterval = absl::Milliseconds(100);
constexpr int kTriesToBlame = 10;
constexpr absl::Duration kDelay = absl::Milliseconds(500);  // of an overdue thread

tf::DataType DataTypeOf(Hosts::Type type) {
  switch (type) {
    case Hosts::Type::kDouble:
      return tf::DT_DOUBLE;
    case Hosts::Type::kInt64:
      return tf::DT_INT64;
    case Hosts::Type::kFloat:
      break;
  }
  return tf::DT_FLOAT;
}

absl::Status CheckSettings(const Cluster::Settings& settings) {
  const int size = static_cast<int>(settings.addresses.size());
  if (size == 0) {
    return absl::InvalidArgumentError(
        "Got a cluster without hosts; wanted at least one");
  }
  if (settings.rank < 0 || settings.rank >= size) {
    return absl::InvalidArgumentError(absl::StrCat("Got host ", settings.rank, " of ",
                                                   size, ", wanted 0 to ", size - 1));
  }
  std::vector<std::string> sorted = settings.addresses;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Got the address ", *twice, " twice; wanted one for each host"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<Cluster>> Cluster::Join(const Settings& settings) {
  TF_RETURN_IF_ERROR(CheckSettings(settings));
  static absl::Mutex mu(absl::kConstInit);
  static auto* const joined = new std::weak_ptr<Cluster>;
  static bool first = true;  // later, the process does not rejoin but continues
  absl::MutexLock lock(&mu);
  TF_ASSIGN_OR_RETURN(CollectiveServer* const server,
                      CollectiveServer::Start(settings.addresses, settings.rank));
  std::shared_ptr<Cluster> cluster = joined->lock();
  if (cluster != nullptr) return cluster;
  cluster.reset(new Cluster(server, settings));
  TF_RETURN_IF_ERROR(cluster->MakeGroupKernel());
  TF_RETURN_IF_ERROR(
      cluster->AwaitHosts(settings.start_limit, settings.elastic && first));
  if (!settings.elastic) {
    TF_RETURN_IF_ERROR(cluster->SetFirstGroup(settings.hang_limit));
  } else if (!cluster->rejoins()) {
    TF_RETURN_IF_ERROR(cluster->Greet());
  }
  first = false;
  cluster->watchdog_ = std::thread([raw = cluster.get()] { raw->Watch(); });
  *joined = cluster;
  return cluster;
}

Cluster::Cluster(CollectiveServer* server, const Settings& settings)
    : server_(server),
      hang_limit_(settings.hang_limit),
      start_limit_(settings.start_limit),
      elastic_(settings.elastic),
      group_{Hosts::members(), /*epoch=*/0, /*exchange=*/nullptr} {}

Cluster::~Cluster() {
  ended_.Notify();
  if (watchdog_.joinable()) watchdog_.join();
  server_->Post(Notice());
}

absl::Status Cluster::MakeGroupKernel() {
  tf::Device* const device = server_->device();
  tf::NodeDef node;
  // No time limit, which would cost two sleeping threads for every sum.
  TF_RETURN_IF_ERROR(tf::NodeDefBuilder("group_of_hosts", "CollectiveReduceV2")
                         .Attr("T", tf::DT_INT64)
                         .Attr("merge_op", "Add")
                         .Attr("final_op", "Id")
                         .Attr("communication_hint", "ring")
                         .Attr("timeout_seconds", 0.0f)
                         .Attr("max_subdivs_per_device", -1)
                         .Device(device->name())
                         .Input("input", 0, tf::DT_INT64)
                         .Input("group_size", 0, tf::DT_INT32)
                         .Input("group_key", 0, tf::DT_INT32)
                         .Input("instance_key", 0, tf::DT_INT32)
                         .Input(absl::Span<const tf::NodeDefBuilder::NodeOut>())
                         .Finalize(&node));
  absl::Status status;
  group_kernel_ = tf::CreateOpKernel(tf::DEVICE_CPU, device, device->GetAllocator({}),
                                     node, TF_GRAPH_DEF_VERSION, &status);
  return status;
}

absl::Status Cluster::SetGroup(const std::vector<int>& members, int64_t epoch,
                               const std::vector<uint64_t>& incarnations,
                               int64_t number) {
  server_->NoteMembers(members, incarnations);
  std::shared_ptr<TensorExchange> exchange;
  if (members.size() > 1) {
    TF_ASSIGN_OR_RETURN(auto rendezvous, server_->OpenRendezvous(number));
    std::vector<TensorExchange::Member> all;
    for (size_t k = 0; k < members.size(); ++k) {
      all.push_back({DeviceName(members[k]), incarnations[k]});
    }
    const auto place = std::find(members.begin(), members.end(), rank());
    exchange = std::make_shared<TensorExchange>(
        server_->device(), std::move(all), static_cast<int>(place - members.begin()),
        std::move(rendezvous));
  }
  absl::MutexLock lock(&mu_);
  group_ = {members, epoch, std::move(exchange)};
  error_.clear();
  notice_.failure.clear();  // belongs to the old epoch
  rejoins_ = false;
  return absl::OkStatus();
}

absl::Status Cluster::SetFirstGroup(absl::Duration limit) {
  const std::vector<int> all = members();
  std::vector<uint64_t> incarnations;
  const auto answers = server_->AskAll(all, limit);
  for (int host : all) {
    if (!answers[host].status.ok()) {
      return absl::UnavailableError(
          absl::StrCat("host ", host, " (", server_->addresses()[host],
                       ") does not answer: ", answers[host].status.message()));
    }
    incarnations.push_back(answers[host].incarnation);
  }
  return SetGroup(all, /*epoch=*/0, incarnations, /*number=*/0);
}

absl::Status Cluster::AwaitHosts(absl::Duration limit, bool may_return) {
  const absl::Time deadline = absl::Now() + limit;
  std::string missing;
  bool may_train = false;  // a host that has not been seen yet
  do {
    if (!missing.empty() || may_train) absl::SleepFor(kGreetInterval);
    may_train = false;
    if (may_return) {
      const std::vector<std::optional<Notice>> notices = ReadNotices();
      for (int host = 0; host < size(); ++host) {
        const std::optional<Notice>& notice = notices[host];
        may_train |= host != rank() && !notice.has_value();
        if (!notice.has_value() || notice->state != Notice::State::kMember) continue;
        absl::MutexLock lock(&mu_);
        rejoins_ = true;
        group_.members = {rank()};
        return absl::OkStatus();
      }
    }
    missing = NameDead(server_->CheckHealth(members(), absl::Seconds(1)));
  } while ((!missing.empty() || may_train) && absl::Now() < deadline);
  if (missing.empty()) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat(
      "Some hosts of the cluster did not start within ", absl::FormatDuration(limit),
      ": ", missing, ". Start the program on every host, and check the addresses."));
}

std::string Cluster::FindFailure(int64_t epoch, absl::Duration timeout) const {
  const auto answers = server_->CheckHealth(members(), timeout);
  for (const CollectiveServer::Answer& answer : answers) {
    if (!answer.notice.has_value() || answer.notice->epoch != epoch) continue;
    if (!answer.notice->failure.empty()) return answer.notice->failure;
  }
  return NameDead(answers);
}

std::string Cluster::NameDead(
    const std::vector<CollectiveServer::Answer>& answers) const {
  std::vector<std::string> dead;
  for (size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].status.ok()) continue;
    const std::string message(answers[i].status.message());
    dead.push_back(
        absl::StrCat("host ", i, " (", server_->addresses()[i],
                     ") does not answer: ", message.substr(0, message.find('\n'))));
  }
  return absl::StrJoin(dead, "; ");
}

void Cluster::Watch() {
  absl::Time since = absl::Now();
  while (!ended_.WaitForNotificationWithTimeout(kWatchInterval)) {
    const int64_t epoch = group().epoch;
    const absl::Time woken = absl::Now();
    const std::string failure = FindFailure(epoch, hang_limit_ - kWatchInterval);
    const absl::Duration stopped =
        std::max(woken - since - kWatchInterval, absl::Now() - woken - kDelay);
    if (elastic_) sees_rejoining_.store(!FindRejoining().empty());
    since = absl::Now();
    if (elastic_ && stopped >= hang_limit_ - kWatchInterval) {
      FailIn(epoch, absl::StrCat("host ", rank(), " (", server_->addresses()[rank()],
                                 ") does not answer: it has been stopped for ",
                                 absl::FormatDuration(stopped)));
      continue;
    }
    if (failure.empty()) continue;
    FailIn(epoch, failure);
    if (!elastic_) return;
  }
}

std::string Cluster::Explain(int64_t epoch, const absl::Status& status) {
  if (epoch != group().epoch) return "The hosts have changed.";
  if (!error().empty()) return error();
  std::string why = WhyAborted(status.message());
  // Repeats, since an ending host may still answer once.
  for (int i = 0; why.empty() && i < kTriesToBlame; ++i) {
    if (i > 0) absl::SleepFor(kGreetInterval);
    why = FindFailure(epoch, absl::Seconds(1));
  }
  FailIn(epoch, why.empty() ? std::string(status.message()) : why);
  return error();
}

std::unique_ptr<HostSum> Cluster::NewSum(Type type, int64_t n) {
  return std::make_unique<Sum>(this, DataTypeOf(type), n);
}

void Cluster::Fail(const std::string& why) { FailIn(group().epoch, why); }

void Cluster::FailIn(int64_t epoch, const std::string& why) {
  tf::CollectiveExecutor* executor = nullptr;
  std::shared_ptr<TensorExchange> exchange;
  {
    absl::MutexLock lock(&mu_);
    if (!error_.empty() || epoch != group_.epoch) return;
    error_ = why;
    notice_.epoch = epoch;
    notice_.failure = why;
    server_->Post(notice_);
    // From here on another thread may regroup the hosts.
    executor = server_->executor();
    exchange = group_.exchange;
  }
  Abort(why, executor, exchange.get());
}

void Cluster::AwaitToldOthers() const {
  const Group group = this->group();
  const absl::Time deadline = absl::Now() + hang_limit_;
  const auto knows = [&](const std::optional<Notice>& notice) {
    return !notice.has_value() || !notice->failure.empty() ||
           notice->epoch != group.epoch;
  };
  do {
    const auto notices = server_->ReadNotices(group.members, kWatchInterval);
    if (std::all_of(notices.begin(), notices.end(), knows)) return;
    absl::SleepFor(kGreetInterval);
  } while (absl::Now() < deadline);
}

void Cluster::Abort(absl::string_view why) {
  const Group group = this->group();
  Abort(why, server_->executor(), group.exchange.get());
}

void Cluster::Abort(absl::string_view why, tf::CollectiveExecutor* executor,
                    TensorExchange* exchange) {
  // Not UnavailableError: TensorFlow would repeat the request until this process has
  // ended, or until an elastic host has another executor, which waits.
  const absl::Status status = absl::AbortedError(absl::StrCat(kOurs, why));
  executor->StartAbort(status);
  if (exchange != nullptr) exchange->Abort(status);
}

std::string Cluster::error() const {
  absl::MutexLock lock(&mu_);
  return error_;
}

Cluster::Group Cluster::group() const {
  absl::MutexLock lock(&mu_);
  return group_;
}

}  // namespace tensorbow
