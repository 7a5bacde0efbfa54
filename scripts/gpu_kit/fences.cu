// What do fences cost? Tutti's kernels publish data by fences of GPU or system scope, and read sums of a switch after
// fence.proxy.alias. A fence may wait for stores of other kernels in its memory sync domain, so it is also measured
// beside a kernel that writes to this GPU, to the host, and to another GPU if there is one, in the same domain and in
// another one.
//
//   nvcc -O3 -std=c++20 -arch=sm_90 -cudart static -o fences scripts/gpu_kit/fences.cu && ./fences
#include "probe.cuh"

namespace tutti::probe {
namespace {

enum class Fence { none, gpu, system, alias };
constexpr struct {
  Fence fence;
  const char* name;
} kFences[] = {
    {Fence::none, "store alone"}, {Fence::gpu, "GPU scope"}, {Fence::system, "system scope"}, {Fence::alias, "alias proxy"}};

constexpr unsigned kFencesOfALook = 64, kFencesOfARun = 8 * kFencesOfALook;
constexpr std::uint64_t kMillisecond = 1000 * 1000;
constexpr std::uint64_t kFencesLimit = 5 * kMillisecond, kWriterLimit = 20 * kMillisecond;

struct Taken {
  unsigned long long nanoseconds;
  unsigned fences;
};

// Every thread stores and fences, as all threads of a step do. Block 0 tells its time. To look at the clock takes time,
// too, so a thread looks once in many rounds.
template <Fence kFence>
__global__ void StoreAndFence(unsigned* words, Taken* taken) {
  volatile unsigned* word = words + blockIdx.x * blockDim.x + threadIdx.x;
  const auto begun = Nanoseconds();
  unsigned done = 0;
  while (done < kFencesOfARun && Nanoseconds() - begun < kFencesLimit) {
    for (unsigned round = 0; round < kFencesOfALook; ++round) {
      *word = ++done;
      if constexpr (kFence == Fence::gpu) asm volatile("fence.acq_rel.gpu;" ::: "memory");
      if constexpr (kFence == Fence::system) asm volatile("fence.acq_rel.sys;" ::: "memory");
      if constexpr (kFence == Fence::alias) asm volatile("fence.proxy.alias;" ::: "memory");
    }
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) *taken = {Nanoseconds() - begun, done};
}

// Writes all the time, until its own time is over. A round takes a millisecond or two at most.
__global__ void Write(uint4* data, std::size_t vectors, unsigned* started) {
  const auto begun = Nanoseconds();
  const std::size_t threads = gridDim.x * blockDim.x, thread = blockIdx.x * blockDim.x + threadIdx.x;
  if (thread == 0) SayStarted(started);
  for (unsigned round = 0; Nanoseconds() - begun < kWriterLimit; ++round) {
    for (std::size_t at = thread; at < vectors; at += threads) data[at] = make_uint4(round, round, round, round);
  }
}

class Fences {
 public:
  Fences() {
    for (auto* stream : {&fences_, &writes_}) {
      Check(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), "stream");
    }
    Check(cudaMalloc(&words_, kMostBlocks * kThreads * sizeof *words_), "cudaMalloc");
    Check(cudaMalloc(&taken_, sizeof *taken_), "cudaMalloc");
  }

  void Alone() {
    for (const unsigned threads : {1U, kThreads}) {
      for (const unsigned blocks : {1U, kMostBlocks}) {
        char what[64];
        std::snprintf(what, sizeof what, "alone, %u blocks of %u threads", blocks, threads);
        Print(what, {blocks, threads, fences_}, nullptr);
      }
    }
  }

  // `where`: whose memory `data` is.
  void BesideAWriter(const char* where, uint4* data) {
    for (const bool remote : {false, true}) {
      char what[96];
      std::snprintf(what, sizeof what, "beside a writer to %s, %s", where, remote ? "another domain" : "the same domain");
      Print(what, {1, kThreads, fences_, false, remote}, data);
    }
  }

  static constexpr std::size_t kWrittenBytes = std::size_t{64} << 20;

 private:
  static constexpr unsigned kThreads = 512, kMostBlocks = 96, kWriters = 32;

  void Print(const char* what, const Launch& launch, uint4* data) {
    std::printf("fences: %s:", what);
    for (const auto& [fence, name] : kFences) std::printf(" %s %.0f ns;", name, NanosecondsOf(fence, launch, data));
    std::printf("\n");
  }

  double NanosecondsOf(Fence fence, const Launch& launch, uint4* data) {
    constexpr int kRuns = 5;
    std::vector<double> times;
    for (int run = 0; run < kRuns; ++run) {
      started_.Reset();
      if (data != nullptr) {
        Enqueue({kWriters, kThreads, writes_}, Write, data, kWrittenBytes / sizeof(uint4), started_.word());
        if (!started_.Wait()) std::printf(" (the writer did not begin within a second)");
      }
      switch (fence) {
        case Fence::none: Enqueue(launch, StoreAndFence<Fence::none>, words_, taken_); break;
        case Fence::gpu: Enqueue(launch, StoreAndFence<Fence::gpu>, words_, taken_); break;
        case Fence::system: Enqueue(launch, StoreAndFence<Fence::system>, words_, taken_); break;
        case Fence::alias: Enqueue(launch, StoreAndFence<Fence::alias>, words_, taken_); break;
      }
      Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      Taken taken{};
      Check(cudaMemcpy(&taken, taken_, sizeof taken, cudaMemcpyDeviceToHost), "cudaMemcpy");
      times.push_back(static_cast<double>(taken.nanoseconds) / taken.fences);
    }
    return Median(times);
  }

  cudaStream_t fences_ = nullptr, writes_ = nullptr;
  unsigned* words_ = nullptr;
  Taken* taken_ = nullptr;
  Started started_;
};

// Memory of the second GPU that the first one reaches; null: there is none.
uint4* OfAnotherGpu() {
  int count = 0, reaches = 0;
  Check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  if (count > 1) Check(cudaDeviceCanAccessPeer(&reaches, 0, 1), "cudaDeviceCanAccessPeer");
  if (reaches == 0) return nullptr;
  uint4* data = nullptr;
  Check(cudaSetDevice(1), "cudaSetDevice");
  Check(cudaMalloc(&data, Fences::kWrittenBytes), "cudaMalloc");
  Check(cudaSetDevice(0), "cudaSetDevice");
  Check(cudaDeviceEnablePeerAccess(1, 0), "cudaDeviceEnablePeerAccess");
  return data;
}

}  // namespace
}  // namespace tutti::probe

int main() {
  using namespace tutti::probe;
  Check(cudaSetDevice(0), "cudaSetDevice");
  std::printf("fences: %d memory sync domains\n", AttributeOf(cudaDevAttrMemSyncDomainCount));
  Fences fences;
  fences.Alone();
  uint4 *own = nullptr, *of_host = nullptr;
  Check(cudaMalloc(&own, Fences::kWrittenBytes), "cudaMalloc");
  Check(cudaHostAlloc(reinterpret_cast<void**>(&of_host), Fences::kWrittenBytes, cudaHostAllocMapped), "cudaHostAlloc");
  fences.BesideAWriter("this GPU", own);
  fences.BesideAWriter("the host", of_host);
  if (uint4* const other = OfAnotherGpu()) fences.BesideAWriter("another GPU", other);
}
