// The device that Eigen's kernels use for one op on a learner's GPU.
//
// TensorFlow's own class returns Eigen's temporary memory by a callback in the stream,
// which a recorded task would repeat. Memory of a learner is used in the order of its
// one compute stream, so it can be returned at once.
#ifndef TENSORBOW_CC_DEVICE_GPU_EIGEN_STREAM_H_
#define TENSORBOW_CC_DEVICE_GPU_EIGEN_STREAM_H_

#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/device_base.h"

namespace tensorbow {

// Returns the bytes of device memory, cleared to zero, that Eigen's reductions share.
size_t EigenScratchBytes();

// Makes a device, which SetEigenStream() sets up before every op.
tensorflow::PerOpGpuDevice* NewEigenDevice();

// Makes the device use `stream`, a cudaStream_t, and `scratch`, of EigenScratchBytes().
void SetEigenStream(tensorflow::PerOpGpuDevice* device, int ordinal, void* stream,
                    tensorflow::Allocator* allocator, void* scratch);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_DEVICE_GPU_EIGEN_STREAM_H_
