#include "cc/cluster/collective_server.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "absl/base/const_init.h"
#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "cc/memory/learner_allocator.h"
#include "tensorflow/core/common_runtime/device_mgr.h"
#include "tensorflow/core/distributed_runtime/call_options.h"
#include "tensorflow/core/distributed_runtime/master_env.h"
#include "tensorflow/core/distributed_runtime/rpc_collective_executor_mgr.h"
#include "tensorflow/core/distributed_runtime/session_mgr.h"
#include "tensorflow/core/distributed_runtime/worker_cache.h"
#include "tensorflow/core/distributed_runtime/worker_env.h"
#include "tensorflow/core/distributed_runtime/worker_interface.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/platform/protobuf.h"
#include "tensorflow/core/platform/threadpool.h"
#include "tensorflow/core/protobuf/tensorflow_server.pb.h"
#include "tensorflow/core/protobuf/worker.pb.h"
#include "unsupported/Eigen/CXX11/Tensor"

namespace tensorflow {
// Defined in libtensorflow_cc, which `import tensorflow` loads; null without it.
extern __attribute__((weak)) std::unique_ptr<RpcCollectiveExecutorMgr>
CreateProdRpcCollectiveExecutorMgr(
    const ConfigProto& config, const DeviceMgr* device_mgr,
    std::unique_ptr<NcclCommunicatorInterface> nccl_communicator,
    WorkerCacheInterface* worker_cache, const std::string& default_worker_name);
}  // namespace tensorflow

// In TensorFlow 2.20, so are the constructor of tsl::CallOptions and SetTimeout().
asm(".weak _ZN3tsl11CallOptionsC1Ev\n"
    ".weak _ZN3tsl11CallOptions10SetTimeoutEl\n"
    ".weak _ZN10tensorflow10SessionMgr13LegacySessionEv");

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

constexpr char kJob[] = "worker";

// The device that computes the sums, on one thread. TensorFlow's CPU device will not
// do: the first one of a process decides how many threads all others have.
class SumDevice : public tf::Device {
 public:
  explicit SumDevice(const std::string& name)
      : Device(tf::Env::Default(),
               BuildDeviceAttributes(name, tf::DEVICE_CPU, tf::Bytes(256 << 20),
                                     tf::DeviceLocality())),
        // Received tensors have the same sizes again and again. New memory from the
        // system would cost a quarter of a sum.
        memory_(LearnerAllocator::New("tensorbow_cluster", PhysicalMemoryBytes())),
        pool_(tf::Env::Default(), "tensorbow_cluster", /*num_threads=*/1),
        eigen_device_(pool_.AsEigenThreadPool(), 1) {
    threads_.num_threads = 1;
    threads_.workers = &pool_;
    set_tensorflow_cpu_worker_threads(&threads_);
    set_eigen_cpu_device(&eigen_device_);
  }
  tf::Allocator* GetAllocator(tf::AllocatorAttributes) override {
    return memory_.get();
  }
  absl::Status Sync() override { return absl::OkStatus(); }

 private:
  const LearnerAllocator::Owner memory_;
  tf::thread::ThreadPool pool_;
  Eigen::ThreadPoolDevice eigen_device_;
  CpuWorkerThreads threads_;
};

tf::ServerDef DefinitionOf(const std::vector<std::string>& addresses, int rank,
                           int leader) {
  tf::ServerDef definition;
  definition.set_protocol("grpc");
  definition.set_job_name(kJob);
  definition.set_task_index(rank);
  tf::JobDef* const job = definition.mutable_cluster()->add_job();
  job->set_name(kJob);
  for (size_t i = 0; i < addresses.size(); ++i)
    (*job->mutable_tasks())[i] = addresses[i];
  tf::ConfigProto* const config = definition.mutable_default_session_config();
  (*config->mutable_device_count())["GPU"] = 0;
  (*config->mutable_device_count())["CPU"] = 1;
  // The leader tells the other hosts the members of a group; without it no host does.
  config->mutable_experimental()->set_collective_group_leader(TaskName(leader));
  return definition;
}

// Excludes the hosts from gRPC's proxy in the environment, which does not know them.
void KeepFromProxy(const std::vector<std::string>& addresses) {
  const char* exceptions = std::getenv("no_grpc_proxy");
  if (exceptions == nullptr) exceptions = std::getenv("no_proxy");
  std::vector<std::string> all;
  if (exceptions != nullptr && *exceptions != '\0') all.push_back(exceptions);
  for (const std::string& address : addresses) {
    all.push_back(address.substr(0, address.rfind(':')));
  }
  setenv("no_grpc_proxy", absl::StrJoin(all, ",").c_str(), /*overwrite=*/1);
}

// Returns a new message of this type; null if TensorFlow does not have it. Its
// constructor is in a library that is loaded, but not linked.
std::unique_ptr<tf::protobuf::Message> NewMessage(const std::string& type) {
  const auto* const descriptor =
      tf::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(type);
  if (descriptor == nullptr) return nullptr;
  const tf::protobuf::Message* const prototype =
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(descriptor);
  return std::unique_ptr<tf::protobuf::Message>(prototype->New());
}

// A call that reads a notice: the worker that it uses, and the response.
struct Reading {
  std::string task;
  tf::WorkerInterface* worker = nullptr;
  tf::CallOptions options;
  std::unique_ptr<tf::protobuf::Message> request =
      NewMessage("tensorflow.GetStatusRequest");
  std::unique_ptr<tf::protobuf::Message> response =
      NewMessage("tensorflow.GetStatusResponse");

  tf::GetStatusResponse* status() {
    return static_cast<tf::GetStatusResponse*>(response.get());
  }
};

}  // namespace

// The server's devices. Requests for the server's status receive the notice instead of
// the physical description of the device.
class NotedDevices : public tf::StaticDeviceMgr {
 public:
  using Base = tf::StaticDeviceMgr;  // another name in some releases
  using Base::Base;
  void ListDeviceAttributes(std::vector<tf::DeviceAttributes>* devices) const override {
    Base::ListDeviceAttributes(devices);
    absl::MutexLock lock(&mu_);
    for (tf::DeviceAttributes& device : *devices) {
      device.set_physical_device_desc(notice_);
    }
  }
  void Post(std::string notice) {
    absl::MutexLock lock(&mu_);
    notice_ = std::move(notice);
  }

 private:
  mutable absl::Mutex mu_;
  std::string notice_ ABSL_GUARDED_BY(mu_) = ToText(Notice());
};

std::string TaskName(int rank) {
  return absl::StrCat("/job:", kJob, "/replica:0/task:", rank);
}

std::string DeviceName(int rank) {
  return absl::StrCat(TaskName(rank), "/device:CPU:0");
}

CollectiveServer::CollectiveServer(std::vector<std::string> addresses, int rank)
    : addresses_(std::move(addresses)), rank_(rank) {}

absl::StatusOr<CollectiveServer*> CollectiveServer::Start(
    const std::vector<std::string>& addresses, int rank) {
  static absl::Mutex mu(absl::kConstInit);
  static CollectiveServer* started = nullptr;  // never destroyed
  absl::MutexLock lock(&mu);
  if (started != nullptr) {
    if (started->addresses_ == addresses && started->rank_ == rank) return started;
    return absl::FailedPreconditionError(absl::StrCat(
        "This process is host ", started->rank_, " of ",
        absl::StrJoin(started->addresses_, ", "), " and cannot become host ", rank,
        " of ", absl::StrJoin(addresses, ", "),
        ": a process joins one cluster. Start another process."));
  }
  KeepFromProxy(addresses);
  // Leaked even on errors: requests of others may be in it.
  auto* const server = new CollectiveServer(addresses, rank);
  const absl::Status status = server->Open();
  if (!status.ok()) {
    return absl::UnavailableError(absl::StrCat(
        "Host ", rank, " cannot listen at ", addresses[rank], ": ", status.message(),
        ". Another program may have the port; give this host another one, in the "
        "cluster of every host."));
  }
  started = server;
  return started;
}

absl::Status CollectiveServer::Open() {
  devices_ = new NotedDevices(std::make_unique<SumDevice>(DeviceName(rank_)));
  TF_RETURN_IF_ERROR(tf::NewServerWithOptions(
      DefinitionOf(addresses_, rank_, /*leader=*/0), {devices_}, &server_));
  TF_RETURN_IF_ERROR(server_->Start());
  TF_RETURN_IF_ERROR(devices_->LookupDevice("CPU:0", &device_));
  executor_.store(
      server_->worker_env()->collective_executor_mgr->FindOrCreate(/*step_id=*/0));
  return absl::OkStatus();
}

absl::Status CollectiveServer::Renew(int leader) {
  if (tf::CreateProdRpcCollectiveExecutorMgr == nullptr) {
    return absl::UnimplementedError(
        "This TensorFlow does not let hosts regroup; leave out Cluster(elastic=True)");
  }
  tf::WorkerEnv* const environment = server_->worker_env();
  // Not by UpdateServerDef(), which deletes objects that running requests still use.
  std::unique_ptr<tf::CollectiveExecutorMgrInterface> manager =
      tf::CreateProdRpcCollectiveExecutorMgr(
          DefinitionOf(addresses_, rank_, leader).default_session_config(),
          environment->device_mgr, /*nccl_communicator=*/nullptr,
          server_->master_env()->worker_cache, TaskName(rank_));
  executor_.store(manager->FindOrCreate(/*step_id=*/0));
  environment->collective_executor_mgr.swap(manager);
  manager.release();  // requests of others may be in it
  return absl::OkStatus();
}

absl::StatusOr<tf::core::RefCountPtr<tf::RemoteRendezvous>>
CollectiveServer::OpenRendezvous(int64_t number) {
  tf::WorkerEnv* const environment = server_->worker_env();
  auto rendezvous = environment->rendezvous_mgr->Find(number);
  TF_RETURN_IF_ERROR(
      rendezvous->Initialize(environment->session_mgr->LegacySession().get()));
  unused_rendezvous_.store(std::max(unused_rendezvous_.load(), number + 1));
  return rendezvous;
}

void CollectiveServer::NoteMembers(const std::vector<int>& hosts,
                                   const std::vector<uint64_t>& incarnations) {
  absl::MutexLock lock(&mu_);
  incarnations_.clear();
  for (size_t k = 0; k < hosts.size(); ++k) incarnations_[hosts[k]] = incarnations[k];
}

std::vector<CollectiveServer::Answer> CollectiveServer::CheckHealth(
    const std::vector<int>& hosts, absl::Duration timeout) const {
  std::vector<Answer> answers = AskAll(hosts, timeout);
  absl::MutexLock lock(&mu_);
  for (int host : hosts) {
    const auto known = incarnations_.find(host);
    if (!answers[host].status.ok() || known == incarnations_.end()) continue;
    if (answers[host].incarnation == known->second) continue;
    answers[host] = Answer();
    answers[host].status = absl::FailedPreconditionError("it has been started again");
  }
  return answers;
}

void CollectiveServer::Post(const Notice& notice) { devices_->Post(ToText(notice)); }

std::vector<std::optional<Notice>> CollectiveServer::ReadNotices(
    const std::vector<int>& hosts, absl::Duration timeout) const {
  std::vector<std::optional<Notice>> notices;
  for (Answer& answer : AskAll(hosts, timeout)) {
    notices.push_back(std::move(answer.notice));
  }
  return notices;
}

std::vector<CollectiveServer::Answer> CollectiveServer::AskAll(
    const std::vector<int>& hosts, absl::Duration timeout) const {
  std::vector<Answer> answers(addresses_.size());
  answers[rank_].incarnation = incarnation();
  tf::WorkerCacheInterface* const workers = server_->master_env()->worker_cache;
  std::vector<int> others;
  std::copy_if(hosts.begin(), hosts.end(), std::back_inserter(others),
               [this](int i) { return i != rank_; });
  absl::BlockingCounter left(static_cast<int>(others.size()));
  for (int i : others) {
    auto* const reading = new Reading;
    reading->task = TaskName(i);
    if (reading->response != nullptr) {
      reading->worker = workers->GetOrCreateWorker(reading->task);
    }
    if (reading->worker == nullptr) {
      answers[i].status = absl::UnavailableError("it cannot be asked");
      delete reading;
      left.DecrementCount();
      continue;
    }
    reading->options.SetTimeout(absl::ToInt64Milliseconds(timeout));
    reading->worker->GetStatusAsync(
        &reading->options, static_cast<tf::GetStatusRequest*>(reading->request.get()),
        reading->status(), /*fail_fast=*/true,
        [reading, workers, &answers, &left, i](const absl::Status& status) {
          Answer& answer = answers[i];
          answer.status = status;
          if (status.ok() && reading->status()->device_attributes_size() > 0) {
            const tf::DeviceAttributes& device =
                reading->status()->device_attributes(0);
            answer.incarnation = device.incarnation();
            answer.notice = NoticeFrom(device.physical_device_desc());
          }
          workers->ReleaseWorker(reading->task, reading->worker);
          delete reading;
          left.DecrementCount();
        });
  }
  left.Wait();  // each at most for `timeout`
  return answers;
}

}  // namespace tensorbow
