// Marks functions that both compilers see: g++ for the CPU, nvcc for CPU and GPU.
#ifndef TENSORBOW_CC_SUPPORT_HOST_DEVICE_H_
#define TENSORBOW_CC_SUPPORT_HOST_DEVICE_H_

#ifdef __CUDACC__
#define TENSORBOW_HOST_DEVICE __host__ __device__ inline
#else
#define TENSORBOW_HOST_DEVICE inline
#endif

#endif  // TENSORBOW_CC_SUPPORT_HOST_DEVICE_H_
