// Shows whether the backward pass hides the averaging of gradients, for a model of equal layers whose backward pass
// computes for a while, over whatever network connects the hosts. Measures in turn, in one run: computing alone,
// communication alone, and both by DistributedDataParallel. Compares the last with the best possible time,
//
//   max(compute, communication) + the last bucket, which no computation is left to hide.
//
//   scripts/cluster.sh --hosts 2 --bandwidth 1gbit -- build/release/examples/ddp_overlap [MILLISECONDS]
//
// MILLISECONDS: computing time of a backward pass (200). TUTTI_TRACE=trace-%r.json shows when the buckets were sent.
#include <tutti/parallel/data_parallel.h>
#include <tutti/parallel/error.h>
#include <tutti/parallel/host_compute.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace tutti::parallel;  // NOLINT: an example of this library
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr std::size_t kLayers = 16;
constexpr std::size_t kLayerCount = 256 * 1024;  // floats: 1 MiB
constexpr std::size_t kBucketBytes = 2 << 20;
constexpr int kSteps = 9;  // the medians are reported

double Median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + std::ssize(values) / 2);
  return values[values.size() / 2];
}

// The work of one layer's backward pass.
using Work = std::function<void()>;

Work Asleep(Milliseconds duration) {
  return [duration] { std::this_thread::sleep_for(duration); };
}

// A fixed amount of arithmetic that takes `duration` on an idle core.
Work OnThisCore(Milliseconds duration) {
  const auto numbers = std::make_shared<std::vector<float>>(4096, 1.0F);
  const auto rounds = [numbers](int count) {
    for (int round = 0; round < count; ++round) {
      for (auto& number : *numbers) number = number * 0.999F + 0.001F;
    }
  };
  constexpr int kTrial = 2000, kTrials = 7;
  double quickest = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const auto begin = Clock::now();
    rounds(kTrial);
    const double took = Milliseconds(Clock::now() - begin).count();
    quickest = trial == 0 ? took : std::min(quickest, took);
  }
  return [rounds, count = static_cast<int>(kTrial * duration.count() / quickest)] { rounds(count); };
}

// A step's duration, from all ranks' common start to this rank's end.
double Timed(ProcessGroup& group, const std::function<void()>& step) {
  group.barrier();
  const auto begin = Clock::now();
  step();
  return Milliseconds(Clock::now() - begin).count();
}

struct Medians {
  double compute, communication, both, last;
};

Medians Measure(ProcessGroup& group, Work layer) {
  HostCompute compute;
  std::vector<float> memory(kLayers * kLayerCount);
  std::vector<Parameter> parameters;
  for (std::size_t i = 0; i < kLayers; ++i) {
    parameters.push_back({"layer" + std::to_string(i), Tensor(memory.data() + i * kLayerCount, {kLayerCount})});
  }
  DistributedDataParallel ddp(group, compute, parameters,
                              {.bucket_bytes = kBucketBytes, .first_bucket_bytes = kBucketBytes});
  const Tensor last = ddp.buckets().back().gradients;
  std::vector<double> alone, communication, both, last_bucket;
  for (int step = 0; step <= kSteps; ++step) {
    const double times[] = {
        Timed(group,
              [&] {
                for (std::size_t i = 0; i < kLayers; ++i) layer();
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
                  layer();
                  ddp.mark_ready(i);
                }
                ddp.finish_gradients();
              }),
        Timed(group, [&] { group.all_reduce(last, last, tuttiAvg); }),
    };
    if (step == 0) continue;  // this step made the connections
    alone.push_back(times[0]);
    communication.push_back(times[1]);
    both.push_back(times[2]);
    last_bucket.push_back(times[3]);
  }
  return {Median(alone), Median(communication), Median(both), Median(last_bucket)};
}

void Run(const std::vector<Milliseconds>& durations) {
  tuttiComm_t handle = nullptr;
  check(tuttiCommInitEnv(&handle, nullptr));
  const std::unique_ptr<tuttiComm, decltype(&tuttiCommDestroy)> comm(handle, &tuttiCommDestroy);
  ProcessGroup world(comm.get());
  const bool speaks = world.rank() == 0;
  if (speaks) {
    std::printf(
        "| ranks | computing | alone (ms) | communication alone (ms) | last bucket (ms) | both (ms) | of max + last "
        "|\n");
    std::printf("|---|---|---|---|---|---|---|\n");
  }
  for (const auto& [name, make] : {std::pair{"asleep", &Asleep}, std::pair{"on this core", &OnThisCore}}) {
    for (const auto duration : durations) {
      const auto [compute, communication, both, last] = Measure(world, make(duration / kLayers));
      const double hoped = std::max(compute, communication) + last;
      if (!speaks) continue;
      std::printf("| %d | %s | %.1f | %.1f | %.1f | %.1f | %.2f |\n", world.size(), name, compute, communication, last,
                  both, both / hoped);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<Milliseconds> durations;
  for (int i = 1; i < argc; ++i) durations.emplace_back(std::strtod(argv[i], nullptr));
  if (durations.empty()) durations = {Milliseconds(50), Milliseconds(130), Milliseconds(250)};
  if (std::ranges::any_of(durations, [](auto each) { return each.count() <= 0; })) {
    std::fprintf(stderr, "usage: ddp_overlap [MILLISECONDS]...\n");
    return 2;
  }
  try {
    Run(durations);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ddp_overlap: %s\n", error.what());
    return 1;
  }
}
