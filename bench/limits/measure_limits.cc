// Measures Limits. Every figure is the lower quartile of many trials: an undisturbed time, but not one that occurred
// only once.
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <new>
#include <thread>

#include "base/report/sizes.h"
#include "bench/limits/limits.h"
#include "bench/limits/stream_kernels.h"
#include "bench/report/statistics.h"
#include "bench/worker/pin.h"

namespace tutti::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTrials = 9;
constexpr double kTrialUs = 8'000;
constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kPage = 4096;
constexpr int kMostCores = 64;  // enough to fill any memory bus
// Close together where caches end: between two points a curve falls evenly, while bandwidth falls at the end of a cache.
constexpr std::array<std::size_t, 13> kBufferSizes = {4u << 10,  16u << 10, 64u << 10, 256u << 10, 512u << 10,
                                                      1u << 20,  2u << 20,  4u << 20,  8u << 20,   16u << 20,
                                                      32u << 20, 64u << 20, 128u << 20};
constexpr std::array<std::size_t, 8> kCrossingSizes = {512,       1024,       4096,       16u << 10,
                                                       64u << 10, 128u << 10, 512u << 10, 1u << 20};

double Quartile(std::vector<double> times) { return Percentile(std::move(times), 25); }

double Microseconds(Clock::duration duration) { return std::chrono::duration<double, std::micro>(duration).count(); }

int CoresAllowed() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  return std::max(1, CPU_COUNT(&allowed));
}

// Runs body(i) on `threads` threads, thread i on core core_of(i).
template <typename Body, typename CoreOf>
void RunPinned(int threads, CoreOf core_of, Body body) {
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&, i] {
      PinToCore(core_of(i));
      body(i);
    });
  }
  for (std::thread& thread : running) thread.join();
}

// Spins, so it suits one thread per core.
class SpinBarrier {
 public:
  explicit SpinBarrier(int threads) : threads_(threads) {}

  void Wait() {
    const int round = round_.load(std::memory_order_acquire);
    if (come_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
      come_.store(0, std::memory_order_relaxed);  // published by the store below
      round_.store(round + 1, std::memory_order_release);
    } else {
      while (round_.load(std::memory_order_acquire) == round) {
      }
    }
  }

 private:
  const int threads_;
  alignas(kCacheLine) std::atomic<int> come_{0};
  alignas(kCacheLine) std::atomic<int> round_{0};
};

// Two threads pass a counter back and forth. Takes the median over many short trials, so that an interruption spoils
// only one.
template <typename Pause>
double RoundTripUs(bool same_core, int trips, Pause pause) {
  constexpr int kRoundTrips = 1001;
  alignas(kCacheLine) std::atomic<int> ball{0};
  std::vector<double> trials;
  RunPinned(
      2, [&](int i) { return same_core ? 0 : i; },
      [&](int i) {
        const int turns = 2 * trips;
        for (int trial = 0; trial <= kRoundTrips; ++trial) {  // the first warms up
          const auto start = Clock::now();
          for (int turn = trial * turns + i; turn < (trial + 1) * turns; turn += 2) {
            while (ball.load(std::memory_order_acquire) != turn) pause();
            ball.store(turn + 1, std::memory_order_release);
          }
          if (i == 0 && trial > 0) trials.push_back(Microseconds(Clock::now() - start) / trips);
        }
      });
  return Quartile(std::move(trials));
}

class Floats {
 public:
  explicit Floats(std::size_t bytes)
      : memory_(static_cast<float*>(std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage))) {
    if (memory_ == nullptr) throw std::bad_alloc();
    std::fill_n(memory_.get(), bytes / sizeof(float), 1.0f);  // first touched by the core that will use it
  }
  float* get() const { return memory_.get(); }

 private:
  struct Release {
    void operator()(float* memory) const { std::free(memory); }
  };
  std::unique_ptr<float, Release> memory_;
};

struct Kernel {
  int streams;  // buffers read and written
  void (*run)(const float* a, const float* b, float* d, std::size_t count);
};

// All cores at the same time, each on its own buffers.
double StreamGbs(int cores, std::size_t bytes, const Kernel& kernel) {
  SpinBarrier barrier(cores);
  std::vector<double> slowest(kTrials, 0);
  std::atomic<int> calls{1};
  std::vector<std::vector<double>> us(static_cast<std::size_t>(cores), std::vector<double>(kTrials));
  RunPinned(
      cores, [](int i) { return i; },
      [&](int core) {
        const Floats a(bytes), b(kernel.streams == 3 ? bytes : 0), d(bytes);
        const auto run = [&](int times) {
          barrier.Wait();
          const auto start = Clock::now();
          for (int i = 0; i < times; ++i) kernel.run(a.get(), b.get(), d.get(), bytes / sizeof(float));
          return Microseconds(Clock::now() - start);
        };
        run(1);
        const double once = run(1);
        if (core == 0) calls.store(std::max(1, static_cast<int>(kTrialUs / once)), std::memory_order_relaxed);
        barrier.Wait();  // orders the store before the loads
        const int times = calls.load(std::memory_order_relaxed);
        for (int trial = 0; trial < kTrials; ++trial) {
          us[static_cast<std::size_t>(core)][static_cast<std::size_t>(trial)] = run(times) / times;
        }
      });
  for (std::size_t trial = 0; trial < slowest.size(); ++trial) {
    for (const auto& core : us) slowest[trial] = std::max(slowest[trial], core[trial]);
  }
  return static_cast<double>(kernel.streams) * static_cast<double>(bytes) * cores / Quartile(slowest) / 1e3;
}

BandwidthCurve Stream(int cores, const Kernel& kernel) {
  std::vector<BandwidthCurve::Point> points;
  for (const std::size_t bytes : kBufferSizes) {
    points.push_back(
        {static_cast<double>(kernel.streams) * static_cast<double>(bytes), StreamGbs(cores, bytes, kernel)});
  }
  return BandwidthCurve(std::move(points));
}

double ClockCostUs() {
  std::vector<double> costs;
  for (int i = 0; i < 1000; ++i) {
    const auto start = Clock::now();
    costs.push_back(Microseconds(Clock::now() - start));
  }
  return Median(costs);
}

// Two cores each write a buffer, then each copies the other's.
double CrossingGbs(std::size_t bytes, double clock_us) {
  const int rounds = static_cast<int>(std::clamp<std::size_t>((32u << 20) / bytes, 20, 2000));
  SpinBarrier barrier(2);
  std::array<std::unique_ptr<Floats>, 2> written;
  std::array<std::vector<double>, 2> us;
  RunPinned(
      2, [](int i) { return i; },
      [&](int core) {
        const auto me = static_cast<std::size_t>(core);
        const std::size_t count = bytes / sizeof(float);
        written[me] = std::make_unique<Floats>(bytes);
        const Floats copy(bytes);
        for (int round = 0; round < rounds; ++round) {
          std::fill_n(written[me]->get(), count, static_cast<float>(round));
          barrier.Wait();
          const auto start = Clock::now();
          CopyFloats(written[1 - me]->get(), copy.get(), count);
          us[me].push_back(Microseconds(Clock::now() - start) - clock_us);
          barrier.Wait();
        }
      });
  std::vector<double> slower;
  for (std::size_t i = 0; i < us[0].size(); ++i) slower.push_back(std::max(us[0][i], us[1][i]));
  return static_cast<double>(bytes) / std::max(Quartile(slower), 1e-3) / 1e3;
}

}  // namespace

void RefreshCoreDistance(Limits& limits) {
  constexpr int kLineTrips = 100;
  constexpr int kYieldTrips = 20;
  limits.yield_round_trip_us = RoundTripUs(true, kYieldTrips, [] { ::sched_yield(); });
  if (limits.cores == 1) return;
  limits.line_round_trip_us = RoundTripUs(false, kLineTrips, [] {});
  std::vector<BandwidthCurve::Point> points;
  const double clock_us = ClockCostUs();
  for (const std::size_t bytes : kCrossingSizes) {
    points.push_back({static_cast<double>(bytes), CrossingGbs(bytes, clock_us)});
  }
  limits.crossing = BandwidthCurve(std::move(points));
}

Limits MeasureLimits(const std::function<void(const std::string&)>& report) {
  const Kernel copy = {2, [](const float* a, const float*, float* d, std::size_t n) { CopyFloats(a, d, n); }};
  const Kernel copy_nt = {
      2, [](const float* a, const float*, float* d, std::size_t n) { CopyFloatsNonTemporal(a, d, n); }};
  const Kernel add = {3, AddFloats};
  const Kernel add_nt = {3, AddFloatsNonTemporal};
  Limits limits;
  limits.cores = std::min(CoresAllowed(), kMostCores);
  limits.private_cache_bytes = static_cast<double>(std::max(0L, ::sysconf(_SC_LEVEL2_CACHE_SIZE)));
  report("between cores");
  RefreshCoreDistance(limits);
  for (int cores = 1; cores <= limits.cores; cores *= 2) {
    report(fmt::format("streaming with {} core{}", cores, cores == 1 ? "" : "s"));
    limits.bandwidth.push_back(
        {cores, Stream(cores, copy), Stream(cores, copy_nt), Stream(cores, add), Stream(cores, add_nt)});
  }
  return limits;
}

}  // namespace tutti::bench
