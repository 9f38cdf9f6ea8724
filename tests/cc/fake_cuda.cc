#include "tests/cc/fake_cuda.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "cc/device/gpu/cuda_event.h"
#include "cc/device/gpu/cuda_memory.h"
#include "cc/device/gpu/cuda_stream.h"
#include "cc/synchroniser/gpu/sma_kernels.h"

namespace tensorbow {
namespace {

struct Work {
  std::function<bool()> ready;
  std::function<void()> run;
};

struct Stream {
  int ordinal;
  bool capturing = false;
  std::deque<Work> queue;
  std::vector<std::function<void()>> captured;
};

// Shared with enqueued waits, which may outlive the event.
struct Event {
  int64_t recorded = 0;
  int64_t done = 0;
};

struct FakeGpus {
  std::recursive_mutex mu;
  std::mt19937 random;
  unsigned laziness = 1;  // the average number of calls between executions
  std::vector<std::unique_ptr<Stream>> streams;
  std::map<const char*, size_t> pinned;

  bool Step() {
    std::vector<Stream*> able;
    for (const auto& stream : streams) {
      if (!stream->queue.empty() && stream->queue.front().ready()) {
        able.push_back(stream.get());
      }
    }
    if (able.empty()) return false;
    Stream* const stream = able[random() % able.size()];
    const Work work = std::move(stream->queue.front());
    stream->queue.pop_front();
    work.run();
    return true;
  }

  void RunUntil(const std::function<bool()>& done) {
    while (!done()) {
      if (Step()) continue;
      std::fprintf(stderr, "fake CUDA: a wait that never ends\n");
      std::abort();
    }
  }

  void Push(Stream* stream, Work work) {
    if (stream->capturing) {
      stream->captured.push_back([this, stream, work] { Push(stream, work); });
      return;
    }
    stream->queue.push_back(std::move(work));
    if (random() % laziness != 0) return;
    for (unsigned steps = random() % 4; steps > 0; --steps) Step();
  }

  bool IsPinned(const void* p) const {
    const char* const address = static_cast<const char*>(p);
    auto after = pinned.upper_bound(address);
    if (after == pinned.begin()) return false;
    --after;
    return address < after->first + after->second;
  }
};

FakeGpus& TheGpus() {
  static auto* const gpus = new FakeGpus;
  return *gpus;
}

using Lock = std::lock_guard<std::recursive_mutex>;

Stream* StreamOf(void* stream) { return static_cast<Stream*>(stream); }

thread_local int current_ordinal = 0;

CudaError CheckCurrent(void* stream) {
  if (StreamOf(stream)->ordinal == current_ordinal) return "";
  return "the stream is of another GPU than the current one";
}

CudaError Launch(void* stream, std::function<void()> work) {
  TENSORBOW_RETURN_IF_CUDA_ERROR(CheckCurrent(stream));
  fake_cuda::Enqueue(stream, std::move(work));
  return "";
}

void WaitNow(Stream* stream, const std::shared_ptr<Event>& event) {
  const int64_t place = event->recorded;
  TheGpus().Push(stream, {[=] { return event->done >= place; }, [] {}});
}

}  // namespace

namespace fake_cuda {

void Seed(unsigned seed) {
  TheGpus().random.seed(seed);
  TheGpus().laziness = 1 + seed % 4 * 8;
}

void* NewStream(int ordinal) {
  Lock lock(TheGpus().mu);
  TheGpus().streams.push_back(std::make_unique<Stream>());
  TheGpus().streams.back()->ordinal = ordinal;
  return TheGpus().streams.back().get();
}

void Enqueue(void* stream, std::function<void()> work) {
  Lock lock(TheGpus().mu);
  TheGpus().Push(StreamOf(stream), {[] { return true; }, std::move(work)});
}

void Drain() {
  Lock lock(TheGpus().mu);
  TheGpus().RunUntil([] {
    for (const auto& stream : TheGpus().streams) {
      if (!stream->queue.empty()) return false;
    }
    return true;
  });
}

void BeginCapture(void* stream) { StreamOf(stream)->capturing = true; }

std::function<void()> EndCapture(void* stream) {
  StreamOf(stream)->capturing = false;
  auto captured = std::exchange(StreamOf(stream)->captured, {});
  return [captured = std::move(captured)] {
    Lock lock(TheGpus().mu);
    for (const auto& enqueue : captured) enqueue();
  };
}

}  // namespace fake_cuda

// ------------------------------------------------------------- streams and events

CudaDeviceGuard::CudaDeviceGuard(int ordinal) : before_(current_ordinal) {
  current_ordinal = ordinal;
}
CudaDeviceGuard::~CudaDeviceGuard() { current_ordinal = before_; }

CudaError CudaStream::Create(bool) {
  stream_ = fake_cuda::NewStream(current_ordinal);
  return "";
}
CudaStream::~CudaStream() = default;

CudaError SynchroniseStream(void* stream) {
  Lock lock(TheGpus().mu);
  TheGpus().RunUntil([&] { return StreamOf(stream)->queue.empty(); });
  return "";
}

CudaError EnqueueHostFunction(std::function<void()> function, void* stream) {
  fake_cuda::Enqueue(stream, std::move(function));
  return "";
}

CudaError IsCapturing(void* stream, bool* capturing) {
  *capturing = StreamOf(stream)->capturing;
  return "";
}

namespace {

std::shared_ptr<Event> EventOf(void* event) {
  return *static_cast<std::shared_ptr<Event>*>(event);
}

}  // namespace

CudaEvent::~CudaEvent() { delete static_cast<std::shared_ptr<Event>*>(event_); }

CudaError CudaEvent::Create() {
  if (event_ == nullptr) event_ = new std::shared_ptr<Event>(std::make_shared<Event>());
  return "";
}

CudaError CudaEvent::Record(void* stream) {
  TENSORBOW_RETURN_IF_CUDA_ERROR(CheckCurrent(stream));
  TENSORBOW_RETURN_IF_CUDA_ERROR(Create());
  Lock lock(TheGpus().mu);
  const auto event = EventOf(event_);
  const int64_t place = ++event->recorded;
  fake_cuda::Enqueue(stream, [=] { event->done = std::max(event->done, place); });
  return "";
}

CudaError CudaEvent::Wait(void* stream) const {
  if (event_ == nullptr) return "";
  Lock lock(TheGpus().mu);
  Stream* const waiter = StreamOf(stream);
  const auto event = EventOf(event_);
  if (waiter->capturing) {
    waiter->captured.push_back([=] { WaitNow(waiter, event); });
  } else {
    WaitNow(waiter, event);
  }
  return "";
}

CudaError CudaEvent::Synchronise() const {
  Lock lock(TheGpus().mu);
  if (event_ == nullptr) return "";
  const auto event = EventOf(event_);
  TheGpus().RunUntil([&] { return event->done == event->recorded; });
  return "";
}

// ------------------------------------------------------------------------- memory

CudaBuffer::~CudaBuffer() {
  if (data_ == nullptr) return;
  fake_cuda::Drain();
  Lock lock(TheGpus().mu);
  TheGpus().pinned.erase(static_cast<const char*>(data_));
  std::free(data_);
}

CudaError CudaBuffer::Allocate(size_t size_bytes) {
  if (size_bytes == 0) return "";
  data_ = std::aligned_alloc(256, (size_bytes + 255) / 256 * 256);
  std::memset(data_, 0xff, size_bytes);
  size_bytes_ = size_bytes;
  return "";
}

CudaError CudaBuffer::AllocatePinned(size_t size_bytes) {
  TENSORBOW_RETURN_IF_CUDA_ERROR(Allocate(size_bytes));
  Lock lock(TheGpus().mu);
  if (data_ != nullptr) TheGpus().pinned[static_cast<const char*>(data_)] = size_bytes;
  return "";
}

CudaError CopyAsync(CudaCopy kind, const void* from, size_t size_bytes, void* to,
                    void* stream) {
  if (size_bytes == 0) return "";
  Lock lock(TheGpus().mu);
  const auto copy = [=] { std::memcpy(to, from, size_bytes); };
  if (kind == CudaCopy::kHostToDevice && !TheGpus().IsPinned(from)) {
    const char* const bytes = static_cast<const char*>(from);
    fake_cuda::Enqueue(stream, [now = std::vector<char>(bytes, bytes + size_bytes),
                                to] { std::memcpy(to, now.data(), now.size()); });
    return "";
  }
  fake_cuda::Enqueue(stream, copy);
  if (kind == CudaCopy::kDeviceToHost && !TheGpus().IsPinned(to)) {
    return SynchroniseStream(stream);
  }
  return "";
}

CudaError ClearAsync(void* data, size_t size_bytes, void* stream) {
  if (size_bytes > 0) {
    fake_cuda::Enqueue(stream, [=] { std::memset(data, 0, size_bytes); });
  }
  return "";
}

// ------------------------------------------------------------------------ kernels

namespace {

template <SmaPass pass, typename S>
void RunBlocks(const SmaTable& table, const SmaArguments& arguments, int first,
               int count) {
  constexpr int kThreads = 3;
  for (int block = first; block < first + count; ++block) {
    for (int thread = 0; thread < kThreads; ++thread) {
      RunSmaBlock<pass, S>(table, arguments, block, thread, kThreads);
    }
  }
}

}  // namespace

CudaError LaunchSmaPass(SmaPass pass, ElementType type, const SmaTable& table,
                        const SmaArguments& arguments, int first, int count,
                        void* stream) {
  return Launch(stream, [=] {
    WithStorageType(type, [&](auto* storage) {
      using S = std::remove_pointer_t<decltype(storage)>;
      WithPass(pass, [&](auto constant) {
        RunBlocks<decltype(constant)::value, S>(table, arguments, first, count);
      });
    });
  });
}

CudaError LaunchRemember(ElementType type, const void* w, const void* z, double alpha,
                         int64_t n, void* c, void* stream) {
  return Launch(stream, [=] {
    WithStorageType(type, [&](auto* storage) {
      using S = std::remove_pointer_t<decltype(storage)>;
      using A = Accumulator<S>;
      for (int64_t i = 0; i < n; ++i) {
        static_cast<A*>(c)[i] =
            StoredCorrection<S>(static_cast<const S*>(w)[i],
                                static_cast<const A*>(z)[i], static_cast<A>(alpha));
      }
    });
  });
}

CudaError LaunchSubtract(ElementType type, const void* c, int64_t n, void* w,
                         void* stream) {
  return Launch(stream, [=] {
    WithStorageType(type, [&](auto* storage) {
      using S = std::remove_pointer_t<decltype(storage)>;
      S* const weights = static_cast<S*>(w);
      for (int64_t i = 0; i < n; ++i) {
        weights[i] =
            StoredDifference<S>(weights[i], static_cast<const Accumulator<S>*>(c)[i]);
      }
    });
  });
}

CudaError LaunchCorrect(ElementType type, const void* z, double alpha, int64_t n,
                        void* w, void* stream) {
  return Launch(stream, [=] {
    WithStorageType(type, [&](auto* storage) {
      using S = std::remove_pointer_t<decltype(storage)>;
      using A = Accumulator<S>;
      S* const weights = static_cast<S*>(w);
      for (int64_t i = 0; i < n; ++i) {
        weights[i] = StoredCorrected<S>(weights[i], static_cast<const A*>(z)[i],
                                        static_cast<A>(alpha));
      }
    });
  });
}

CudaError LaunchReset(ElementType type, const void* z, int64_t n, void* w,
                      void* stream) {
  return Launch(stream, [=] {
    WithStorageType(type, [&](auto* storage) {
      using S = std::remove_pointer_t<decltype(storage)>;
      for (int64_t i = 0; i < n; ++i) {
        static_cast<S*>(w)[i] = ToStorage<S>(static_cast<const Accumulator<S>*>(z)[i]);
      }
    });
  });
}

}  // namespace tensorbow
