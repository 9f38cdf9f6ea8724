// A fake of CUDA for tests, instead of cc/device/gpu/*.cu.cc and the averaging kernels.
// Device memory is the host's, filled with NaNs. Streams are queues whose work is
// executed later, in any order that streams and events allow, drawn from a seed. So a
// missing wait shows as a wrong result for some seeds, and a wait that never ends as an
// error.
//
// It is as strict as CUDA in three ways. Memory that is not page-locked is copied at
// once, other memory when the copy's turn comes. Kernels need the current GPU to be the
// stream's. A wait in a captured graph refers to the latest recording at the launch.
#ifndef TENSORBOW_TESTS_CC_FAKE_CUDA_H_
#define TENSORBOW_TESTS_CC_FAKE_CUDA_H_

#include <functional>

namespace tensorbow {
namespace fake_cuda {

// Draws orders from `seed` from now on. REQUIRES: nothing is enqueued.
void Seed(unsigned seed);
// Makes a stream of GPU `ordinal` that lives as long as the process.
void* NewStream(int ordinal);
void Enqueue(void* stream, std::function<void()> work);
// Executes all enqueued work.
void Drain();

// Makes work enqueued on the stream from now on part of a graph.
void BeginCapture(void* stream);
// Ends the capture and returns the graph; calling it enqueues its work.
std::function<void()> EndCapture(void* stream);

}  // namespace fake_cuda
}  // namespace tensorbow

#endif  // TENSORBOW_TESTS_CC_FAKE_CUDA_H_
