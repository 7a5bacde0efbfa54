// How does a GPU schedule kernels that wait? Tutti launches the blocks of a collective as one cooperative grid, and
// grids of two communicators may wait for each other. So: do two grids that wait for each other run side by side, and
// how long do a collective's blocks wait behind a kernel of many waves, with and without a stream's priority?
//
//   nvcc -O3 -std=c++20 -arch=sm_90 -cudart static -o scheduling scripts/gpu_kit/scheduling.cu && ./scheduling
#include "probe.cuh"

namespace tutti::probe {
namespace {

constexpr std::uint64_t kMicrosecond = 1000, kMillisecond = 1000 * kMicrosecond;

// ------------------------------------------------------------------------------------------------------- clock --

constexpr int kTicks = 32;

// How far the clock goes on from one value that it shows to the next. 0: it stood still.
__global__ void WatchTicks(unsigned long long* ticks) {
  constexpr int kMostLooks = 1 << 20;
  unsigned long long last = Nanoseconds();
  for (int tick = 0; tick < kTicks; ++tick) {
    unsigned long long now = last;
    for (int look = 0; now == last && look < kMostLooks; ++look) now = Nanoseconds();
    ticks[tick] = now - last;
    last = now;
  }
}

// The clock's tick: the times below cannot tell less apart.
void MeasureTicks() {
  unsigned long long *ticks = nullptr, seen[kTicks];
  Check(cudaMalloc(&ticks, sizeof seen), "cudaMalloc");
  Enqueue({}, WatchTicks, ticks);
  Check(cudaMemcpy(seen, ticks, sizeof seen, cudaMemcpyDeviceToHost), "cudaMemcpy");
  cudaFree(ticks);
  // The first one began before the kernel did.
  const auto [least, most] = std::minmax_element(seen + 1, seen + kTicks);
  std::printf("clock: ticks of %.0f ns (%llu to %llu)\n", Median({seen + 1, seen + kTicks}), *least, *most);
}

// ------------------------------------------------------------------------------------------------ side by side --

constexpr unsigned kThreads = 512;  // of a block of Tutti's kernel between GPUs
constexpr std::uint64_t kMeetingLimit = 100 * kMillisecond;

struct Meeting {
  unsigned here[2];   // blocks of each grid that have begun
  unsigned alone[2];  // blocks of each grid that have waited in vain
};

// Each block waits until all blocks of the other grid have begun.
__global__ void Meet(Meeting* meeting, int me, unsigned others) {
  if (threadIdx.x == 0) {
    const auto begun = Nanoseconds();
    atomicAdd(&meeting->here[me], 1);
    const volatile unsigned* there = &meeting->here[1 - me];
    while (*there < others) {
      if (Nanoseconds() - begun < kMeetingLimit) continue;
      atomicAdd(&meeting->alone[me], 1);
      break;
    }
  }
  __syncthreads();  // the block keeps its multiprocessor until then
}

void MeasureMeetings() {
  const auto multiprocessors = static_cast<unsigned>(AttributeOf(cudaDevAttrMultiProcessorCount));
  cudaStream_t streams[2];
  for (auto& stream : streams) Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  Meeting* meeting = nullptr;
  Check(cudaMalloc(&meeting, sizeof *meeting), "cudaMalloc");
  constexpr struct {
    const char* name;
    bool first, second;  // cooperative
  } kKinds[] = {{"plain and plain", false, false},
                {"cooperative and plain", true, false},
                {"plain and cooperative", false, true},
                {"cooperative and cooperative", true, true}};
  for (const auto& kind : kKinds) {
    for (const unsigned blocks : {1U, multiprocessors / 2, multiprocessors}) {
      Check(cudaMemset(meeting, 0, sizeof *meeting), "cudaMemset");
      Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      const auto begun = std::chrono::steady_clock::now();
      Enqueue({blocks, kThreads, streams[0], kind.first}, Meet, meeting, 0, blocks);
      Enqueue({blocks, kThreads, streams[1], kind.second}, Meet, meeting, 1, blocks);
      Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      const double us = MicrosecondsSince(begun);
      Meeting met{};
      Check(cudaMemcpy(&met, meeting, sizeof met, cudaMemcpyDeviceToHost), "cudaMemcpy");
      const bool together = met.alone[0] + met.alone[1] == 0;
      std::printf("side by side: %s, %u blocks each: %s (%.0f us)\n", kind.name, blocks,
                  together ? "they run together" : "one waits for the other's end", us);
    }
  }
  cudaFree(meeting);
  for (auto& stream : streams) cudaStreamDestroy(stream);
}

// --------------------------------------------------------------------------------------------------- many waves --

constexpr unsigned kCollectiveBlocks = 96;  // of a large all-reduce between GPUs
constexpr unsigned kFullBlock = 1024;
constexpr std::uint64_t kBusyNanoseconds = 10 * kMillisecond;  // of all waves

// A kernel that computes: its blocks fill the GPU, and each takes its time.
__global__ void Busy(std::uint64_t nanoseconds, unsigned* started) {
  const auto begun = Nanoseconds();
  if (blockIdx.x == 0 && threadIdx.x == 0) SayStarted(started);
  while (Nanoseconds() - begun < nanoseconds) {
  }
}

struct Begun {
  unsigned long long first, last;
};

__global__ void Begin(Begun* begun) {
  if (threadIdx.x != 0) return;
  const unsigned long long now = Nanoseconds();
  atomicMin(&begun->first, now);
  atomicMax(&begun->last, now);
}

struct Delay {
  double us;         // from the call until the grid has ended
  double spread_us;  // between its first block's begin and its last one's
};

// `wave` 0: the GPU is idle.
Delay DelayOf(const Launch& launch, cudaStream_t busy, std::uint64_t wave, Started& started, Begun* begun) {
  constexpr int kRuns = 5;
  int per_multiprocessor = 0;
  Check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, Busy, kFullBlock, 0), "occupancy");
  const auto in_a_wave = static_cast<unsigned>(AttributeOf(cudaDevAttrMultiProcessorCount) * per_multiprocessor);
  std::vector<double> times, spreads;
  for (int run = 0; run < kRuns; ++run) {
    const Begun none{~0ULL, 0};
    Check(cudaMemcpy(begun, &none, sizeof none, cudaMemcpyHostToDevice), "cudaMemcpy");
    Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    started.Reset();
    if (wave > 0) {
      const auto waves = static_cast<unsigned>(kBusyNanoseconds / wave);
      Enqueue({waves * in_a_wave, kFullBlock, busy}, Busy, wave, started.word());
      if (!started.Wait()) std::printf("many waves: the kernel did not begin within a second\n");
    }
    const auto called = std::chrono::steady_clock::now();
    Enqueue(launch, Begin, begun);
    Check(cudaStreamSynchronize(launch.stream), "cudaStreamSynchronize");
    times.push_back(MicrosecondsSince(called));
    Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    Begun seen{};
    Check(cudaMemcpy(&seen, begun, sizeof seen, cudaMemcpyDeviceToHost), "cudaMemcpy");
    spreads.push_back(static_cast<double>(seen.last - seen.first) / kMicrosecond);
  }
  return {Median(times), Median(spreads)};
}

void MeasureDelays() {
  int least = 0, greatest = 0;
  Check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  cudaStream_t busy;
  Check(cudaStreamCreateWithPriority(&busy, cudaStreamNonBlocking, least), "stream");
  Started started;
  Begun* begun = nullptr;
  Check(cudaMalloc(&begun, sizeof *begun), "cudaMalloc");
  for (const std::uint64_t wave : {std::uint64_t{0}, 20 * kMicrosecond, 200 * kMicrosecond}) {
    for (const bool cooperative : {false, true}) {
      for (const bool prior : {false, true}) {
        cudaStream_t stream;
        Check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, prior ? greatest : least), "stream");
        const auto delay = DelayOf({kCollectiveBlocks, kThreads, stream, cooperative}, busy, wave, started, begun);
        std::printf("many waves: %u %s blocks, %s priority, %s: %.0f us, first to last block %.0f us\n",
                    kCollectiveBlocks, cooperative ? "cooperative" : "plain", prior ? "greatest" : "least",
                    wave == 0                    ? "idle GPU"
                    : wave == 20 * kMicrosecond ? "waves of 20 us, 10 ms in all"
                                                 : "waves of 200 us, 10 ms in all",
                    delay.us, delay.spread_us);
        cudaStreamDestroy(stream);
      }
    }
  }
  cudaFree(begun);
  cudaStreamDestroy(busy);
}

}  // namespace
}  // namespace tutti::probe

int main() {
  using namespace tutti::probe;
  Check(cudaSetDevice(0), "cudaSetDevice");
  MeasureTicks();
  MeasureMeetings();
  MeasureDelays();
}
