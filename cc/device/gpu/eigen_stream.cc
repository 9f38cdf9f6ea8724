#define EIGEN_USE_GPU
#include "cc/device/gpu/eigen_stream.h"

#include "third_party/gpus/cuda/include/cuda_runtime.h"
#include "unsupported/Eigen/CXX11/Tensor"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

class EigenStream : public Eigen::StreamInterface {
 public:
  void Set(int ordinal, gpuStream_t stream, tf::Allocator* allocator, char* scratch) {
    properties_ = &Eigen::GetGpuDeviceProperties(ordinal);
    stream_ = stream;
    allocator_ = allocator;
    scratch_ = scratch;
  }

  const gpuStream_t& stream() const override { return stream_; }
  const gpuDeviceProp_t& deviceProperties() const override { return *properties_; }
  void* allocate(size_t size_bytes) const override {
    return allocator_->AllocateRaw(tf::Allocator::kAllocatorAlignment, size_bytes);
  }
  void deallocate(void* memory) const override { allocator_->DeallocateRaw(memory); }
  void* scratchpad() const override { return scratch_; }
  unsigned int* semaphore() const override {
    return reinterpret_cast<unsigned int*>(scratch_ + Eigen::kGpuScratchSize);
  }

 private:
  const gpuDeviceProp_t* properties_ = nullptr;
  gpuStream_t stream_ = nullptr;
  tf::Allocator* allocator_ = nullptr;
  char* scratch_ = nullptr;
};

class EigenDevice : public tf::PerOpGpuDevice {
 public:
  EigenDevice() : device_(&stream_) {}
  const Eigen::GpuDevice& device() const override { return device_; }
  EigenStream* stream() { return &stream_; }

 private:
  EigenStream stream_;
  Eigen::GpuDevice device_;
};

}  // namespace

size_t EigenScratchBytes() { return Eigen::kGpuScratchSize + sizeof(unsigned int); }

tf::PerOpGpuDevice* NewEigenDevice() { return new EigenDevice; }

void SetEigenStream(tf::PerOpGpuDevice* device, int ordinal, void* stream,
                    tf::Allocator* allocator, void* scratch) {
  static_cast<EigenDevice*>(device)->stream()->Set(
      ordinal, static_cast<gpuStream_t>(stream), allocator,
      static_cast<char*>(scratch));
}

}  // namespace tensorbow
