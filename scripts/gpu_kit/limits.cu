// Measures a GPU, its driver and its host without Tutti. Tutti's design rests on these figures
// (docs/notebook/performance/shared_gpu.md): memory bandwidth by the blocks' way through the buffers, a graph's time
// for each launch by its edges, and the host's time to launch one kernel behind and before the streams of several
// threads' ranks.
//
//   nvcc -O3 -std=c++20 -arch=sm_90 -cudart static -o limits scripts/gpu_kit/limits.cu -lcuda && ./limits
#include <cuda.h>

#include <atomic>
#include <functional>
#include <thread>

#include "probe.cuh"

namespace tutti::probe {
namespace {

// ---------------------------------------------------------------------------------------------------- memory --

constexpr int kMostBuffers = 8, kLoadsAtOnce = 4, kThreads = 256, kBlocksPerMultiprocessor = 2;
constexpr std::size_t kBufferBytes = std::size_t{256} << 20;

struct Buffers {
  const uint4* in[kMostBuffers];
  uint4* out[kMostBuffers];
};

__device__ void Add(uint4& sum, const uint4& term) {
  const auto add = [](unsigned& a, unsigned b) { a = __float_as_uint(__uint_as_float(a) + __uint_as_float(b)); };
  add(sum.x, term.x), add(sum.y, term.y), add(sum.z, term.z), add(sum.w, term.w);
}

// Sums all sources into all destinations. `in_turn`: blocks take batches in turn; otherwise each has a contiguous part.
__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    Reduce(const __grid_constant__ Buffers buffers, int sources, int destinations, std::size_t vectors, bool in_turn) {
  const std::size_t batch = kLoadsAtOnce * blockDim.x;
  const std::size_t part = (vectors / gridDim.x + batch - 1) / batch * batch;
  std::size_t at = in_turn ? blockIdx.x * batch : blockIdx.x * part;
  const std::size_t step = in_turn ? gridDim.x * batch : batch;
  const std::size_t end = in_turn ? vectors : min(vectors, at + part);
  for (at += threadIdx.x; at + (kLoadsAtOnce - 1) * blockDim.x < end; at += step) {
    uint4 sums[kLoadsAtOnce] = {}, one[kLoadsAtOnce];
#pragma unroll 2
    for (int s = 0; s < sources; ++s) {
#pragma unroll
      for (int i = 0; i < kLoadsAtOnce; ++i) one[i] = buffers.in[s][at + i * blockDim.x];
#pragma unroll
      for (int i = 0; i < kLoadsAtOnce; ++i) Add(sums[i], one[i]);
    }
#pragma unroll 1
    for (int d = 0; d < destinations; ++d) {
#pragma unroll
      for (int i = 0; i < kLoadsAtOnce; ++i) buffers.out[d][at + i * blockDim.x] = sums[i];
    }
  }
}

// Milliseconds on the stream: the median of several runs, after one that does not count.
double Milliseconds(cudaStream_t stream, const std::function<void()>& enqueue) {
  constexpr int kRuns = 5;
  cudaEvent_t begun, ended;
  Check(cudaEventCreate(&begun), "cudaEventCreate");
  Check(cudaEventCreate(&ended), "cudaEventCreate");
  std::vector<double> times;
  for (int run = 0; run <= kRuns; ++run) {
    cudaEventRecord(begun, stream);
    enqueue();
    cudaEventRecord(ended, stream);
    Check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    float ms = 0;
    cudaEventElapsedTime(&ms, begun, ended);
    if (run > 0) times.push_back(ms);
  }
  return Median(times);
}

void MeasureMemory(cudaStream_t stream) {
  const int multiprocessors = AttributeOf(cudaDevAttrMultiProcessorCount);
  Buffers buffers{};
  for (int i = 0; i < kMostBuffers; ++i) {
    void *in = nullptr, *out = nullptr;
    Check(cudaMalloc(&in, kBufferBytes), "cudaMalloc");
    Check(cudaMalloc(&out, kBufferBytes), "cudaMalloc");
    cudaMemset(in, i, kBufferBytes);
    buffers.in[i] = static_cast<const uint4*>(in);
    buffers.out[i] = static_cast<uint4*>(out);
  }
  constexpr struct {
    int sources, destinations;
  } kShapes[] = {{1, 1}, {2, 2}, {8, 8}, {1, 8}, {8, 1}};
  for (const auto& shape : kShapes) {
    std::printf("memory: %d sources, %d destinations:", shape.sources, shape.destinations);
    for (const bool in_turn : {false, true}) {
      const double ms = Milliseconds(stream, [&] {
        Reduce<<<multiprocessors * kBlocksPerMultiprocessor, kThreads, 0, stream>>>(
            buffers, shape.sources, shape.destinations, kBufferBytes / sizeof(uint4), in_turn);
      });
      const double bytes = static_cast<double>(kBufferBytes) * (shape.sources + shape.destinations);
      std::printf(" %s %.0f GB/s", in_turn ? "in turn" : "parts", bytes / ms / 1e6);
    }
    std::printf("\n");
  }
  for (int i = 0; i < kMostBuffers; ++i) cudaFree(const_cast<uint4*>(buffers.in[i])), cudaFree(buffers.out[i]);
}

// ------------------------------------------------------------------------------------------- launches, events --

struct Parameter {
  char bytes[4000];
};
__global__ void Nothing(const __grid_constant__ Parameter parameter, char* never) {
  if (never != nullptr) *never = parameter.bytes[threadIdx.x];
}

void LaunchNothing(unsigned blocks, bool cooperative, cudaStream_t stream) {
  static const Parameter parameter{};
  Enqueue({blocks, kThreads, stream, cooperative}, Nothing, parameter, static_cast<char*>(nullptr));
}

// Streams of the ranks of one GPU, and events between them.
struct Ranks {
  std::vector<cudaStream_t> streams;
  std::vector<cudaEvent_t> arrived;
  cudaEvent_t launched = nullptr;

  explicit Ranks(int count) : streams(count), arrived(count) {
    for (auto& stream : streams) Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    for (auto& event : arrived) cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    cudaEventCreateWithFlags(&launched, cudaEventDisableTiming);
  }
  int count() const { return static_cast<int>(streams.size()); }

  // One kernel behind the work of all streams, and their later work behind it.
  void LaunchTogether() {
    for (int r = 1; r < count(); ++r) {
      cudaEventRecord(arrived[r], streams[r]);
      cudaStreamWaitEvent(streams[0], arrived[r], 0);
    }
    LaunchNothing(static_cast<unsigned>(count()), true, streams[0]);
    cudaEventRecord(launched, streams[0]);
    for (int r = 1; r < count(); ++r) cudaStreamWaitEvent(streams[r], launched, 0);
  }
};

void MeasureGraph(const char* name, cudaStream_t stream, const std::function<void()>& launch,
                  const std::function<void()>& join) {
  constexpr int kLaunches = 200;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  Check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < kLaunches; ++i) launch();
  join();
  Check(cudaStreamEndCapture(stream, &graph), "capture");
  Check(cudaGraphInstantiate(&ready, graph, 0), "cudaGraphInstantiate");
  const double ms = Milliseconds(stream, [&] { Check(cudaGraphLaunch(ready, stream), "cudaGraphLaunch"); });
  std::printf("graph: %s: %.2f us a launch\n", name, ms * 1e3 / kLaunches);
  cudaGraphExecDestroy(ready);
  cudaGraphDestroy(graph);
}

void MeasureGraphs() {
  Ranks one(1);
  const auto nothing = [] {};
  MeasureGraph("plain", one.streams[0], [&] { LaunchNothing(2, false, one.streams[0]); }, nothing);
  MeasureGraph("cooperative", one.streams[0], [&] { LaunchNothing(2, true, one.streams[0]); }, nothing);
  for (const int count : {2, 8}) {
    Ranks ranks(count);
    // The others join the capture by the first one's event.
    cudaStream_t first = ranks.streams[0];
    const auto together = [&] {
      cudaEventRecord(ranks.launched, first);
      for (int r = 1; r < count; ++r) cudaStreamWaitEvent(ranks.streams[r], ranks.launched, 0);
      ranks.LaunchTogether();
    };
    const auto join = [&] {
      for (int r = 1; r < count; ++r) {
        cudaEventRecord(ranks.arrived[r], ranks.streams[r]);
        cudaStreamWaitEvent(first, ranks.arrived[r], 0);
      }
    };
    char name[64];
    std::snprintf(name, sizeof name, "cooperative, %d streams by events", count);
    MeasureGraph(name, first, together, join);
  }
}

// ------------------------------------------------------------------------------------------------------ host --

enum class Launcher { first, last };

// Ends the probe if what a thread waits for does not come: another thread may be stuck in the driver.
template <typename Condition>
void SpinUntil(const Condition& condition) {
  constexpr double kLimitUs = 5e6;
  constexpr unsigned kLooksOfAClock = 1 << 16;  // to look at it takes time, too
  const auto begun = std::chrono::steady_clock::now();
  for (unsigned look = 1; !condition(); ++look) {
    __builtin_ia32_pause();
    if (look % kLooksOfAClock != 0 || MicrosecondsSince(begun) < kLimitUs) continue;
    std::printf("host: a thread has waited in vain for another one\n");
    std::fflush(stdout);
    std::_Exit(1);  // that thread stays where it is
  }
}

// Microseconds of an operation that `count` threads call and one of them launches.
double MicrosecondsOf(Ranks& ranks, Launcher launcher, bool ask) {
  constexpr int kOperations = 1000, kWarmup = 100;
  void* memory = nullptr;
  Check(cudaMalloc(&memory, 1), "cudaMalloc");
  const int count = ranks.count();
  std::atomic<int> here{0}, launched{0};
  double us = 0;
  const auto rank = [&](int r) {
    cudaSetDevice(0);
    auto begun = std::chrono::steady_clock::now();
    for (int i = 0; i < kOperations + kWarmup; ++i) {
      if (i == kWarmup) begun = std::chrono::steady_clock::now();
      for (int buffer = 0; ask && buffer < 2; ++buffer) {
        unsigned type = 0;
        cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reinterpret_cast<CUdeviceptr>(memory));
      }
      const bool last = here.fetch_add(1) + 1 == count * (i + 1);
      if (launcher == Launcher::first ? r == 0 : last) {
        SpinUntil([&] { return here.load() >= count * (i + 1); });
        ranks.LaunchTogether();
        launched.store(i + 1);
      }
      SpinUntil([&] { return launched.load() > i; });
    }
    if (r == 0) us = MicrosecondsSince(begun);
  };
  std::vector<std::thread> threads;
  for (int r = 0; r < count; ++r) threads.emplace_back(rank, r);
  for (auto& thread : threads) thread.join();
  cudaFree(memory);
  return us / kOperations;
}

void MeasureHost() {
  for (const int count : {2, 8}) {
    Ranks ranks(count);
    constexpr int kOperations = 1000;
    for (int i = 0; i < kOperations / 10; ++i) ranks.LaunchTogether();
    const auto begun = std::chrono::steady_clock::now();
    for (int i = 0; i < kOperations; ++i) ranks.LaunchTogether();
    const double alone = MicrosecondsSince(begun);
    Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    std::printf("host: one launch for %d streams: one thread %.1f us", count, alone / kOperations);
    std::printf("; %d threads, the first launches %.1f", count, MicrosecondsOf(ranks, Launcher::first, false));
    std::printf(", the last %.1f", MicrosecondsOf(ranks, Launcher::last, false));
    std::printf(", and all ask for 2 pointers %.1f\n", MicrosecondsOf(ranks, Launcher::last, true));
    Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
}

}  // namespace
}  // namespace tutti::probe

int main() {
  using namespace tutti::probe;
  Check(cudaSetDevice(0), "cudaSetDevice");
  Ranks one(1);
  MeasureMemory(one.streams[0]);
  MeasureGraphs();
  MeasureHost();
}
