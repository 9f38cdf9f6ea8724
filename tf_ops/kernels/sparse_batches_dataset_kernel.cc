// The CPU kernel of a data set of batches from compressed sparse rows. TensorFlow's
// slices of sparse tensors can do the same in ten times the time.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/data/sparse_rows.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/variant.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

constexpr char kNextRow[] = "next_row";
constexpr char kGroup[] = "group_";

// The components of an element of the input.
enum Part { kEnds, kColumns, kValues, kLabelEnds, kLabels, kNumParts };

const tf::DataTypeVector& GroupTypes() {
  static const auto* const types = new tf::DataTypeVector(
      {tf::DT_INT64, tf::DT_INT64, tf::DT_FLOAT, tf::DT_INT64, tf::DT_INT64});
  return *types;
}

SparseRows SparseRowsOf(const tf::Tensor& ends, const tf::Tensor& columns,
                        int64_t width) {
  return {ends.flat<int64_t>().data(), ends.NumElements() - 1,
          columns.flat<int64_t>().data(), columns.NumElements(), width};
}

// Returns rows [begin, end) as a sparse tensor of tf.data. `values`: of all rows; null
// if each is 1.
tf::Tensor Batch(const SparseRows& rows, const float* values, int64_t begin,
                 int64_t end) {
  const int64_t size = rows.Count(begin, end);
  tf::Tensor indices(tf::DT_INT64, {size, 2});
  rows.WriteIndices(begin, end, indices.flat<int64_t>().data());
  tf::Tensor own(tf::DT_FLOAT, {size});
  if (values == nullptr) {
    own.flat<float>().setConstant(1);
  } else {
    std::copy_n(values + rows.First(begin), size, own.flat<float>().data());
  }
  tf::Tensor shape(tf::DT_INT64, {2});
  shape.flat<int64_t>()(0) = end - begin;
  shape.flat<int64_t>()(1) = rows.width;
  tf::Tensor parts(tf::DT_VARIANT, {3});
  parts.flat<tf::Variant>()(0) = std::move(indices);
  parts.flat<tf::Variant>()(1) = std::move(own);
  parts.flat<tf::Variant>()(2) = std::move(shape);
  return parts;
}

class SparseBatches : public tf::data::DatasetBase {
 public:
  // `groups`: a data set of GroupTypes(); this keeps a reference to it.
  SparseBatches(tf::OpKernelContext* context, const DatasetBase* groups, int64_t rows,
                int64_t num_columns, int64_t num_labels)
      : DatasetBase(tf::data::DatasetContext(context)),
        groups_(groups),
        rows_(rows),
        num_columns_(num_columns),
        num_labels_(num_labels) {
    groups_->Ref();
  }
  ~SparseBatches() override { groups_->Unref(); }

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
  absl::Status InputDatasets(std::vector<const DatasetBase*>* inputs) const override {
    inputs->push_back(groups_);
    return absl::OkStatus();
  }
  absl::Status CheckExternalState() const override {
    return groups_->CheckExternalState();
  }
  int64_t CardinalityInternal(tf::data::CardinalityOptions /*options*/) const override {
    return tf::data::kUnknownCardinality;
  }

 protected:
  absl::Status AsGraphDefInternal(tf::data::SerializationContext* context,
                                  DatasetGraphDefBuilder* builder,
                                  tf::Node** node) const override {
    tf::Node* groups = nullptr;
    TF_RETURN_IF_ERROR(builder->AddInputDataset(context, groups_, &groups));
    tf::Node* rows = nullptr;
    TF_RETURN_IF_ERROR(builder->AddScalar(rows_, &rows));
    tf::AttrValue num_columns, num_labels;
    builder->BuildAttrValue(num_columns_, &num_columns);
    builder->BuildAttrValue(num_labels_, &num_labels);
    return builder->AddDataset(
        this, {groups, rows},
        {{"num_columns", num_columns}, {"num_labels", num_labels}}, node);
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

    absl::Status Initialize(tf::data::IteratorContext* context) override {
      tf::mutex_lock lock(mu_);
      return dataset()->groups_->MakeIterator(context, this, prefix(), &groups_);
    }

   protected:
    absl::Status GetNextInternal(tf::data::IteratorContext* context,
                                 std::vector<tf::Tensor>* element, bool* end) override {
      tf::mutex_lock lock(mu_);
      while (next_row_ >= NumRows()) {
        TF_RETURN_IF_ERROR(NextGroup(context, end));
        if (*end) return absl::OkStatus();
      }
      *end = false;
      const int64_t begin = next_row_;
      next_row_ = std::min(begin + dataset()->rows_, NumRows());
      *element = {
          Batch(Samples(), group_[kValues].flat<float>().data(), begin, next_row_),
          Batch(Labels(), nullptr, begin, next_row_)};
      return absl::OkStatus();
    }

    // The group is part of the state: the input's iterator is already past it.
    absl::Status SaveInternal(tf::data::SerializationContext* context,
                              tf::data::IteratorStateWriter* writer) override {
      tf::mutex_lock lock(mu_);
      TF_RETURN_IF_ERROR(SaveInput(context, writer, groups_));
      TF_RETURN_IF_ERROR(writer->WriteScalar(prefix(), kNextRow, next_row_));
      const bool has_group = next_row_ < NumRows();
      if (!has_group) return absl::OkStatus();
      for (int part = 0; part < kNumParts; ++part) {
        TF_RETURN_IF_ERROR(
            writer->WriteTensor(prefix(), absl::StrCat(kGroup, part), group_[part]));
      }
      return absl::OkStatus();
    }
    absl::Status RestoreInternal(tf::data::IteratorContext* context,
                                 tf::data::IteratorStateReader* reader) override {
      tf::mutex_lock lock(mu_);
      TF_RETURN_IF_ERROR(RestoreInput(context, reader, groups_));
      group_.clear();
      TF_RETURN_IF_ERROR(reader->ReadScalar(prefix(), kNextRow, &next_row_));
      if (!reader->Contains(prefix(), absl::StrCat(kGroup, 0))) {
        next_row_ = 0;
        return absl::OkStatus();
      }
      std::vector<tf::Tensor> group(kNumParts);
      for (int part = 0; part < kNumParts; ++part) {
        TF_RETURN_IF_ERROR(reader->ReadTensor(
            context->flr(), prefix(), absl::StrCat(kGroup, part), &group[part]));
      }
      return Take(std::move(group));
    }
    std::shared_ptr<tf::data::model::Node> CreateNode(
        tf::data::IteratorContext* /*context*/,
        tf::data::model::Node::Args args) const override {
      return tf::data::model::MakeUnknownRatioNode(std::move(args));
    }

   private:
    SparseRows Samples() const TF_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return SparseRowsOf(group_[kEnds], group_[kColumns], dataset()->num_columns_);
    }
    SparseRows Labels() const TF_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return SparseRowsOf(group_[kLabelEnds], group_[kLabels], dataset()->num_labels_);
    }
    int64_t NumRows() const TF_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return group_.empty() ? 0 : group_[kEnds].NumElements() - 1;
    }

    absl::Status NextGroup(tf::data::IteratorContext* context, bool* end)
        TF_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      group_.clear();
      next_row_ = 0;
      std::vector<tf::Tensor> group;
      TF_RETURN_IF_ERROR(groups_->GetNext(context, &group, end));
      return *end ? absl::OkStatus() : Take(std::move(group));
    }

    // Makes `group` the current group, if it is valid.
    absl::Status Take(std::vector<tf::Tensor> group) TF_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      const bool vectors = std::all_of(group.begin(), group.end(),
                                       [](const auto& t) { return t.dims() == 1; });
      group_ = std::move(group);
      if (vectors && Samples().IsValid() && Labels().IsValid() &&
          Samples().num_rows == Labels().num_rows &&
          group_[kValues].NumElements() == group_[kColumns].NumElements()) {
        return absl::OkStatus();
      }
      const int64_t rows = std::max(int64_t{0}, NumRows());
      const int64_t labelled = std::max(int64_t{0}, Labels().num_rows);
      group_.clear();
      return absl::InvalidArgumentError(absl::StrCat(
          "Got ", rows, " rows and ", labelled,
          " rows of labels; wanted rows that end one after the other, where the "
          "columns do, with columns below ",
          dataset()->num_columns_, " and labels below ", dataset()->num_labels_));
    }

    tf::mutex mu_;
    std::unique_ptr<tf::data::IteratorBase> groups_ TF_GUARDED_BY(mu_);
    std::vector<tf::Tensor> group_ TF_GUARDED_BY(mu_);  // empty if there is none
    int64_t next_row_ TF_GUARDED_BY(mu_) = 0;
  };

  const DatasetBase* const groups_;
  const int64_t rows_;
  const int64_t num_columns_;
  const int64_t num_labels_;
};

class SparseBatchesKernel : public tf::data::UnaryDatasetOpKernel {
 public:
  explicit SparseBatchesKernel(tf::OpKernelConstruction* construction)
      : UnaryDatasetOpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("num_columns", &num_columns_));
    OP_REQUIRES_OK(construction, construction->GetAttr("num_labels", &num_labels_));
  }

 protected:
  void MakeDataset(tf::OpKernelContext* context, tf::data::DatasetBase* groups,
                   tf::data::DatasetBase** dataset) override {
    OP_REQUIRES(context, context->input(1).dims() == 0,
                absl::InvalidArgumentError("Wanted a number of rows"));
    const int64_t rows = context->input(1).scalar<int64_t>()();
    OP_REQUIRES(
        context, rows > 0,
        absl::InvalidArgumentError(absl::StrCat("Got batches of ", rows, " rows")));
    OP_REQUIRES(
        context, groups->output_dtypes() == GroupTypes(),
        absl::InvalidArgumentError(absl::StrCat(
            "Got a data set of ", tf::DataTypeVectorString(groups->output_dtypes()),
            ", wanted ", tf::DataTypeVectorString(GroupTypes()))));
    *dataset = new SparseBatches(context, groups, rows, num_columns_, num_labels_);
  }

 private:
  int64_t num_columns_ = 0;
  int64_t num_labels_ = 0;
};

REGISTER_KERNEL_BUILDER(Name("TensorBowSparseBatchesDataset").Device(tf::DEVICE_CPU),
                        SparseBatchesKernel);

}  // namespace
}  // namespace tensorbow
