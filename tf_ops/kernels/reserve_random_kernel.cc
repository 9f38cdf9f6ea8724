#include <memory>
#include <string>

#include "cc/device/learner_device.h"
#include "cc/support/random_streams.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/rng_alg.h"
#include "tensorflow/core/framework/tensor_util.h"
#include "tensorflow/core/lib/random/random.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

// The samples that TensorFlow's random ops reserve for an element (random_op.cc).
constexpr int64_t kSamplesPerElement = 256;

class ReserveRandomKernel : public tf::OpKernel {
 public:
  explicit ReserveRandomKernel(tf::OpKernelConstruction* context)
      : OpKernel(context), algorithm_(tf::DT_INT32, tf::TensorShape({})) {
    std::string name;
    int64_t seed = 0, seed2 = 0;
    OP_REQUIRES_OK(context, context->GetAttr("stream", &name));
    OP_REQUIRES_OK(context, context->GetAttr("seed", &seed));
    OP_REQUIRES_OK(context, context->GetAttr("seed2", &seed2));
    auto* const device = dynamic_cast<LearnerDevice*>(context->device());
    OP_REQUIRES(context, device != nullptr,
                absl::FailedPreconditionError(
                    "TensorBowReserveRandom got a device that is not a learner's; "
                    "only TensorBow itself puts this op into graphs"));
    RandomStreams::Position start;
    start.key = static_cast<uint64_t>(seed);
    start.counter[1] = static_cast<uint64_t>(seed2);
    if (seed == 0 && seed2 == 0) {
      start.key = tf::random::New64();
      start.counter[1] = tf::random::New64();
    }
    stream_ = device->random_streams().FindOrCreate(name, start);
    algorithm_.scalar<int32_t>()() = tf::RNG_ALG_PHILOX;
  }

  void Compute(tf::OpKernelContext* context) override {
    tf::TensorShape shape;
    OP_REQUIRES_OK(context, tf::tensor::MakeShape(context->input(0), &shape));
    tf::Tensor* key = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, tf::TensorShape({1}), &key));
    tf::Tensor* counter = nullptr;
    OP_REQUIRES_OK(context,
                   context->allocate_output(1, tf::TensorShape({2}), &counter));
    const RandomStreams::Position position =
        stream_->Reserve(shape.num_elements() * kSamplesPerElement);
    key->flat<tf::uint64>()(0) = position.key;
    counter->flat<tf::uint64>()(0) = position.counter[0];
    counter->flat<tf::uint64>()(1) = position.counter[1];
    context->set_output(2, algorithm_);
  }

 private:
  std::shared_ptr<RandomStreams::Stream> stream_;
  tf::Tensor algorithm_;
};

REGISTER_KERNEL_BUILDER(Name("TensorBowReserveRandom").Device(tf::DEVICE_CPU),
                        ReserveRandomKernel);

}  // namespace
}  // namespace tensorbow
