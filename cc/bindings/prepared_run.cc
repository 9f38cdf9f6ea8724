#include "cc/bindings/prepared_run.h"

#include <pybind11/stl.h>

#include <cstring>
#include <utility>

#include "cc/session/session_registry.h"
#include "cc/support/mutex.h"
#include "tensorflow/core/framework/allocation_description.pb.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace tensorbow {

namespace py = ::pybind11;
namespace tf = ::tensorflow;

namespace {

// Python objects released without the interpreter's lock. The next thread that holds it
// frees them.
class PendingReleases {
 public:
  void Add(PyObject* object) {
    MutexLock lock(&mu_);
    objects_.push_back(object);
  }
  void Free() {
    std::vector<PyObject*> objects;
    {
      MutexLock lock(&mu_);
      objects.swap(objects_);
    }
    for (PyObject* object : objects) Py_DECREF(object);
  }

 private:
  Mutex mu_;
  std::vector<PyObject*> objects_ TENSORBOW_GUARDED_BY(mu_);
};

PendingReleases* pending_releases() {
  static PendingReleases* const objects = new PendingReleases;
  return objects;
}

// The memory of an array, which TensorFlow must not write.
class ArrayBuffer : public tf::TensorBuffer {
 public:
  explicit ArrayBuffer(const py::array& array)
      : TensorBuffer(const_cast<void*>(array.data())),
        size_(array.nbytes()),
        array_(py::object(array).release().ptr()) {}
  ~ArrayBuffer() override {
    if (!Py_IsInitialized()) return;
    if (PyGILState_Check()) {
      Py_DECREF(array_);
    } else {
      pending_releases()->Add(array_);
    }
  }

  size_t size() const override { return size_; }
  tf::TensorBuffer* root_buffer() override { return this; }
  bool OwnsMemory() const override { return false; }
  void FillAllocationDescription(
      tf::AllocationDescription* description) const override {
    description->set_requested_bytes(size_);
    description->set_allocator_name("NumPy");
  }

 private:
  const size_t size_;
  PyObject* const array_;
};

tf::Tensor ToTensor(py::array array, tf::DataType type) {
  if (!(array.flags() & py::array::c_style)) {
    array = py::array::ensure(array, py::array::c_style);
    if (!array) throw py::error_already_set();
  }
  tf::TensorShape shape;
  for (py::ssize_t d = 0; d < array.ndim(); ++d) shape.AddDim(array.shape(d));
  if (shape.num_elements() == 0) return tf::Tensor(type, shape);
  return tf::Tensor(type, std::move(shape),
                    tf::core::RefCountPtr<tf::TensorBuffer>(new ArrayBuffer(array)));
}

// Returns Python's texts and bytes as TensorFlow's strings; nullopt for other elements.
std::optional<tf::Tensor> ToStrings(const py::array& array) {
  tf::TensorShape shape;
  for (py::ssize_t d = 0; d < array.ndim(); ++d) shape.AddDim(array.shape(d));
  tf::Tensor tensor(tf::DT_STRING, std::move(shape));
  auto strings = tensor.flat<tf::tstring>();
  const py::list elements(array.attr("ravel")().attr("tolist")());
  for (size_t i = 0; i < elements.size(); ++i) {
    const py::handle element = elements[i];
    if (!py::isinstance<py::bytes>(element) && !py::isinstance<py::str>(element)) {
      return std::nullopt;
    }
    strings(i) = py::cast<std::string>(element);
  }
  return tensor;
}

py::object FromStrings(const tf::Tensor& tensor, const py::dtype& type,
                       const std::vector<py::ssize_t>& shape) {
  const auto strings = tensor.flat<tf::tstring>();
  if (shape.empty()) return py::bytes(strings(0).data(), strings(0).size());
  py::array array(type, shape);
  const py::object elements = array.attr("flat");
  for (int64_t i = 0; i < strings.size(); ++i) {
    elements[py::int_(i)] = py::bytes(strings(i).data(), strings(i).size());
  }
  return array;
}

py::object ToArray(tf::Tensor tensor, const py::dtype& type) {
  std::vector<py::ssize_t> shape;
  for (int64_t size : tensor.shape().dim_sizes()) shape.push_back(size);
  if (tensor.dtype() == tf::DT_STRING) return FromStrings(tensor, type, shape);
  if (!tensor.RefCountIsOne() || shape.empty()) {
    py::array copy(type, shape);
    std::memcpy(copy.mutable_data(), tensor.data(), tensor.TotalBytes());
    return shape.empty() ? copy[py::tuple()] : py::object(copy);
  }
  auto* const kept = new tf::Tensor(std::move(tensor));
  const py::capsule owner(
      kept, [](void* tensor) { delete static_cast<tf::Tensor*>(tensor); });
  return py::array(type, shape, kept->data(), owner);
}

}  // namespace

PreparedRun::PreparedRun(int64_t session,
                         std::weak_ptr<const TensorBowSession::Signature> signature,
                         std::vector<tf::DataType> feed_types,
                         std::vector<py::dtype> fetch_types)
    : session_(session),
      signature_(std::move(signature)),
      feed_types_(std::move(feed_types)),
      fetch_types_(std::move(fetch_types)) {}

std::optional<std::vector<tf::Tensor>> PreparedRun::Feeds(
    const std::vector<py::array>& arrays) const {
  std::vector<tf::Tensor> feeds;
  for (size_t i = 0; i < feed_types_.size(); ++i) {
    if (feed_types_[i] == tf::DT_STRING) {
      std::optional<tf::Tensor> strings = ToStrings(arrays.at(i));
      if (!strings.has_value()) return std::nullopt;
      feeds.push_back(*std::move(strings));
      continue;
    }
    feeds.push_back(ToTensor(arrays.at(i), feed_types_[i]));
  }
  return feeds;
}

absl::Status PreparedRun::Run(const std::vector<py::array>& arrays,
                              std::vector<int64_t> task_rows,
                              std::optional<py::list>* fetches) {
  pending_releases()->Free();
  std::vector<tf::Tensor> values;
  const auto given = Feeds(arrays);
  if (!given.has_value()) return absl::OkStatus();  // TensorFlow reports the error
  const std::vector<tf::Tensor>& feeds = *given;
  absl::Status status;
  bool executed = false;
  {
    py::gil_scoped_release no_gil;
    status = WithSession(session_, [&](TensorBowSession* session) {
      const auto signature = signature_.lock();
      if (signature == nullptr) return absl::OkStatus();
      executed = true;
      const absl::Status run =
          session->RunLearning(*signature, feeds, std::move(task_rows), &values);
      has_warnings_.store(session->has_warnings(), std::memory_order_relaxed);
      return run;
    });
  }
  if (!status.ok() || !executed) return status;
  py::list list(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    list[i] = ToArray(std::move(values[i]), fetch_types_[i]);
  }
  *fetches = std::move(list);
  return absl::OkStatus();
}

absl::Status PreparedRun::Explain(const std::vector<py::array>& arrays,
                                  std::optional<py::dict>* explanation) {
  const auto feeds = Feeds(arrays);
  if (!feeds.has_value()) return absl::OkStatus();
  std::optional<Decision> found;
  std::shared_ptr<const TensorBowSession::Signature> signature;
  absl::Status status;
  {
    py::gil_scoped_release no_gil;
    status = WithSession(session_, [&](TensorBowSession* session) -> absl::Status {
      signature = signature_.lock();
      if (signature == nullptr) return absl::OkStatus();
      TF_ASSIGN_OR_RETURN(found, session->ExplainLearning(*signature, *feeds));
      return absl::OkStatus();
    });
  }
  if (!status.ok() || !found.has_value()) return status;
  py::dict facts;
  facts["why_one_learner"] = found->why_one_learner;
  const bool is_divided = found->why_one_learner.empty();
  std::vector<int64_t> task_rows;
  for (const FeedPlan::Rows& task : found->plan.tasks)
    task_rows.push_back(task.count());
  py::list rows;  // by feed; None: every learner gets it whole
  for (bool by_rows : found->plan.divided) {
    if (is_divided && by_rows && !task_rows.empty()) {
      rows.append(task_rows);
    } else {
      rows.append(py::none());
    }
  }
  facts["rows"] = rows;
  // Types say how several tasks make the values of all rows.
  const bool has_types = is_divided && found->types != nullptr && task_rows.size() > 1;
  facts["division"] = !has_types ? "" : found->estimates ? "by own rows" : "exact";
  py::dict texts;
  if (has_types) {
    for (const auto& [tensor, type] : found->types->types) {
      if (type.typed()) texts[py::str(tensor)] = Describe(type, *found->types->sizes);
    }
    const auto compiled = signature->program->compiled();
    for (const FetchSource& fetch : compiled->fetches) {
      const py::str name(fetch.declaration.name);
      if (fetch.deferred) texts[name] = "computed once, for all rows";
    }
  }
  facts["types"] = texts;
  py::object exchanges = py::list();
  if (has_types && !found->estimates) exchanges = py::cast(found->types->exchanges);
  facts["exchanges"] = exchanges;
  *explanation = std::move(facts);
  return absl::OkStatus();
}

}  // namespace tensorbow
