// Does the backward pass hide the averaging of gradients? A model of equal layers whose backward pass computes for a
// while, between hosts by what the network gives. Measures in turn, in one run: computing alone, communication alone,
// and both by DistributedDataParallel; and says how the last compares with what can be hoped for,
//
//   max(compute, communication) + the last bucket, which nothing is left to hide.
//
//   scripts/cluster.sh --hosts 2 --bandwidth 1gbit -- build/release/examples/ddp_overlap [MILLISECONDS]
//
// MILLISECONDS: of computing, a backward pass (200). TUTTI_TRACE=trace-%r.json shows when the buckets were sent.
#include <tutti/parallel/data_parallel.h>
#include <tutti/parallel/error.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace tutti::parallel;  // NOLINT: an example of this library
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr std::size_t kLayers = 16;
constexpr std::size_t kLayerCount = 256 * 1024;  // floats: 1 MiB
constexpr std::size_t kBucketBytes = 2 << 20;
constexpr int kSteps = 9;  // the medians are told
constexpr double kUsualMilliseconds = 200;

double Median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + std::ssize(values) / 2);
  return values[values.size() / 2];
}

// What a layer's backward pass would do: a fixed amount of arithmetic, as much as takes so long on an idle core.
class Work {
 public:
  explicit Work(Milliseconds duration) : numbers_(4096, 1.0F) {
    constexpr int kTrial = 2000;
    Rounds(kTrial);  // warms up
    const auto begin = Clock::now();
    Rounds(kTrial);
    rounds_ = static_cast<int>(kTrial * (duration / Milliseconds(Clock::now() - begin)));
  }
  void Do() { Rounds(rounds_); }

 private:
  void Rounds(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      for (auto& number : numbers_) number = number * 0.999F + 0.001F;
    }
  }

  std::vector<float> numbers_;
  int rounds_ = 0;
};

// A step's duration, from everybody's beginning to the end here.
double Timed(ProcessGroup& group, const std::function<void()>& step) {
  group.barrier();
  const auto begin = Clock::now();
  step();
  return Milliseconds(Clock::now() - begin).count();
}

struct Medians {
  double compute, communication, both, last;
};

Medians Measure(ProcessGroup& group, Milliseconds duration) {
  HostCompute compute;
  std::vector<float> memory(kLayers * kLayerCount);
  std::vector<Parameter> parameters;
  for (std::size_t i = 0; i < kLayers; ++i) {
    parameters.push_back({"layer" + std::to_string(i), Tensor(memory.data() + i * kLayerCount, {kLayerCount})});
  }
  DistributedDataParallel ddp(group, compute, parameters,
                              {.bucket_bytes = kBucketBytes, .first_bucket_bytes = kBucketBytes});
  Work layer(duration / kLayers);
  const Tensor last = ddp.buckets().back().gradients;
  std::vector<double> alone, communication, both, last_bucket;
  for (int step = 0; step <= kSteps; ++step) {
    const double times[] = {
        Timed(group,
              [&] {
                for (std::size_t i = 0; i < kLayers; ++i) layer.Do();
              }),
        Timed(group,
              [&] {
                ddp.zero_grad();
                ddp.finish_gradients();
              }),
        Timed(group,
              [&] {
                ddp.zero_grad();
                for (std::size_t i = kLayers; i-- > 0;) {
                  layer.Do();
                  ddp.mark_ready(i);
                }
                ddp.finish_gradients();
              }),
        Timed(group, [&] { group.all_reduce(last, last, tuttiAvg); }),
    };
    if (step == 0) continue;  // connections are made
    alone.push_back(times[0]);
    communication.push_back(times[1]);
    both.push_back(times[2]);
    last_bucket.push_back(times[3]);
  }
  return {Median(alone), Median(communication), Median(both), Median(last_bucket)};
}

void Run(Milliseconds duration) {
  tuttiComm_t handle = nullptr;
  check(tuttiCommInitEnv(&handle, nullptr));
  const std::unique_ptr<tuttiComm, decltype(&tuttiCommDestroy)> comm(handle, &tuttiCommDestroy);
  ProcessGroup world(comm.get());
  const auto [compute, communication, both, last] = Measure(world, duration);
  if (world.rank() != 0) return;
  const double hoped = std::max(compute, communication) + last;
  std::printf(
      "| ranks | compute (ms) | communication (ms) | last bucket (ms) | overlapped (ms) | of max + last bucket |\n");
  std::printf("|---|---|---|---|---|---|\n");
  std::printf("| %d | %.1f | %.1f | %.1f | %.1f | %.2f |\n", world.size(), compute, communication, last, both,
              both / hoped);
}

}  // namespace

int main(int argc, char** argv) {
  const double duration = argc > 1 ? std::strtod(argv[1], nullptr) : kUsualMilliseconds;
  if (argc > 2 || duration <= 0) {
    std::fprintf(stderr, "usage: ddp_overlap [MILLISECONDS]\n");
    return 2;
  }
  try {
    Run(Milliseconds(duration));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ddp_overlap: %s\n", error.what());
    return 1;
  }
}
