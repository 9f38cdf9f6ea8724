// CPU kernel of a data set whose elements are batches of compressed sparse rows. Slices
// of sparse tensors are what TensorFlow has for that, and take ten times as long.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/variant.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

// Rows as compressed sparse ones: row i has columns[ends[i]] to columns[ends[i + 1] -
// 1].
struct SparseRows {
  tf::Tensor ends;
  tf::Tensor columns;
  tf::Tensor values;  // without elements: all are 1
  int64_t width = 0;

  const int64_t* end_of() const { return ends.flat<int64_t>().data(); }
  int64_t count() const { return ends.NumElements() - 1; }

  bool IsValid() const {
    const auto at = ends.flat<int64_t>();
    const auto column = columns.flat<int64_t>();
    return ends.dims() == 1 && columns.dims() == 1 && at.size() > 0 && at(0) == 0 &&
           at(at.size() - 1) == column.size() &&
           std::is_sorted(at.data(), at.data() + at.size()) &&
           std::all_of(column.data(), column.data() + column.size(),
                       [this](int64_t c) { return c >= 0 && c < width; }) &&
           (values.NumElements() == 0 || values.NumElements() == column.size());
  }

  // The rows as a sparse tensor as tf.data keeps it.
  tf::Tensor Slice(int64_t begin, int64_t end) const {
    const int64_t* const at = end_of();
    const int64_t first = at[begin], size = at[end] - first;
    tf::Tensor indices(tf::DT_INT64, {size, 2});
    const auto column = columns.flat<int64_t>();
    int64_t* next = indices.flat<int64_t>().data();
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t i = at[row]; i < at[row + 1]; ++i) {
        *next++ = row - begin;
        *next++ = column(i);
      }
    }
    tf::Tensor own(tf::DT_FLOAT, {size});
    if (values.NumElements() == 0) {
      own.flat<float>().setConstant(1);
    } else {
      std::copy_n(values.flat<float>().data() + first, size, own.flat<float>().data());
    }
    tf::Tensor shape(tf::DT_INT64, {2});
    shape.flat<int64_t>()(0) = end - begin;
    shape.flat<int64_t>()(1) = width;
    tf::Tensor parts(tf::DT_VARIANT, {3});
    parts.flat<tf::Variant>()(0) = std::move(indices);
    parts.flat<tf::Variant>()(1) = std::move(own);
    parts.flat<tf::Variant>()(2) = std::move(shape);
    return parts;
  }
};

class SparseBatches : public tf::data::DatasetBase {
 public:
  SparseBatches(tf::OpKernelContext* context, int64_t rows, SparseRows samples,
                SparseRows labels)
      : DatasetBase(tf::data::DatasetContext(context)),
        rows_(rows),
        samples_(std::move(samples)),
        labels_(std::move(labels)) {}

  const tf::DataTypeVector& output_dtypes() const override {
    static const auto* const types =
        new tf::DataTypeVector({tf::DT_VARIANT, tf::DT_VARIANT});
    return *types;
  }
  const std::vector<tf::PartialTensorShape>& output_shapes() const override {
    static const auto* const shapes =
        new std::vector<tf::PartialTensorShape>({{3}, {3}});
    return *shapes;
  }
  std::string DebugString() const override { return "SparseBatches"; }
  absl::Status InputDatasets(
      std::vector<const DatasetBase*>* /*inputs*/) const override {
    return absl::OkStatus();
  }
  absl::Status CheckExternalState() const override { return absl::OkStatus(); }
  int64_t CardinalityInternal(tf::data::CardinalityOptions /*options*/) const override {
    return num_batches();
  }

 protected:
  absl::Status AsGraphDefInternal(tf::data::SerializationContext* /*context*/,
                                  DatasetGraphDefBuilder* builder,
                                  tf::Node** node) const override {
    std::vector<tf::Node*> inputs(6);
    TF_RETURN_IF_ERROR(builder->AddScalar(rows_, &inputs[0]));
    const tf::Tensor* const tensors[] = {&samples_.ends, &samples_.columns,
                                         &samples_.values, &labels_.ends,
                                         &labels_.columns};
    for (size_t i = 0; i < std::size(tensors); ++i) {
      TF_RETURN_IF_ERROR(builder->AddTensor(*tensors[i], &inputs[i + 1]));
    }
    tf::AttrValue num_columns, num_labels;
    builder->BuildAttrValue(samples_.width, &num_columns);
    builder->BuildAttrValue(labels_.width, &num_labels);
    return builder->AddDataset(
        this, inputs, {{"num_columns", num_columns}, {"num_labels", num_labels}}, node);
  }

  std::unique_ptr<tf::data::IteratorBase> MakeIteratorInternal(
      const std::string& prefix) const override {
    return std::make_unique<Iterator>(
        Iterator::Params{this, absl::StrCat(prefix, "::SparseBatches")});
  }

 private:
  class Iterator : public tf::data::DatasetIterator<SparseBatches> {
   public:
    using DatasetIterator::DatasetIterator;

   protected:
    absl::Status GetNextInternal(tf::data::IteratorContext* /*context*/,
                                 std::vector<tf::Tensor>* element, bool* end) override {
      tf::mutex_lock lock(mu_);
      *end = next_ >= dataset()->num_batches();
      if (*end) return absl::OkStatus();
      const int64_t begin = next_++ * dataset()->rows_;
      const int64_t stop =
          std::min(begin + dataset()->rows_, dataset()->samples_.count());
      *element = {dataset()->samples_.Slice(begin, stop),
                  dataset()->labels_.Slice(begin, stop)};
      return absl::OkStatus();
    }
    absl::Status SaveInternal(tf::data::SerializationContext* /*context*/,
                              tf::data::IteratorStateWriter* writer) override {
      tf::mutex_lock lock(mu_);
      return writer->WriteScalar(full_name("next"), next_);
    }
    absl::Status RestoreInternal(tf::data::IteratorContext* /*context*/,
                                 tf::data::IteratorStateReader* reader) override {
      tf::mutex_lock lock(mu_);
      return reader->ReadScalar(full_name("next"), &next_);
    }
    std::shared_ptr<tf::data::model::Node> CreateNode(
        tf::data::IteratorContext* /*context*/,
        tf::data::model::Node::Args args) const override {
      return tf::data::model::MakeSourceNode(std::move(args));
    }

   private:
    tf::mutex mu_;
    int64_t next_ TF_GUARDED_BY(mu_) = 0;
  };

  int64_t num_batches() const { return (samples_.count() + rows_ - 1) / rows_; }

  const int64_t rows_;
  const SparseRows samples_;
  const SparseRows labels_;
};

class SparseBatchesKernel : public tf::data::DatasetOpKernel {
 public:
  explicit SparseBatchesKernel(tf::OpKernelConstruction* construction)
      : DatasetOpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("num_columns", &num_columns_));
    OP_REQUIRES_OK(construction, construction->GetAttr("num_labels", &num_labels_));
  }

 protected:
  void MakeDataset(tf::OpKernelContext* context,
                   tf::data::DatasetBase** dataset) override {
    OP_REQUIRES(context, context->input(0).dims() == 0,
                absl::InvalidArgumentError("Wanted a number of rows"));
    const int64_t rows = context->input(0).scalar<int64_t>()();
    SparseRows samples = {context->input(1), context->input(2), context->input(3),
                          num_columns_};
    SparseRows labels = {context->input(4), context->input(5),
                         tf::Tensor(tf::DT_FLOAT, {0}), num_labels_};
    OP_REQUIRES(context,
                rows > 0 && samples.IsValid() && labels.IsValid() &&
                    samples.count() == labels.count(),
                absl::InvalidArgumentError(
                    absl::StrCat("Got batches of ", rows, " rows, of ", samples.count(),
                                 " rows and ", labels.count(),
                                 " rows of labels; wanted rows that end one after the "
                                 "other, where the columns do, with columns below ",
                                 num_columns_, " and labels below ", num_labels_)));
    *dataset = new SparseBatches(context, rows, std::move(samples), std::move(labels));
  }

 private:
  int64_t num_columns_ = 0;
  int64_t num_labels_ = 0;
};

REGISTER_KERNEL_BUILDER(Name("TensorBowSparseBatchesDataset").Device(tf::DEVICE_CPU),
                        SparseBatchesKernel);

}  // namespace
}  // namespace tensorbow
