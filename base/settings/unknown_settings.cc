#include "base/settings/unknown_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/plain_text.h"
#include "base/settings/nearest_name.h"

namespace tutti {
namespace {

// Variables that others read: whole names, so that a misspelt one is noticed, too.
constexpr std::array kOthers = std::to_array<std::string_view>({
    // interop/pmpi
    "TUTTI_MPI",
    "TUTTI_MPI_REPORT",
    // bench, and the clusters of scripts/cluster.sh
    "TUTTI_BENCH_OWN_NCCL",
    "TUTTI_BENCH_WORKER",
    "TUTTI_CLUSTER",
    // testing/fake_gpu
    "TUTTI_FAKE_GPU_ALLOCATIONS_WAIT",
    "TUTTI_FAKE_GPU_APART",
    "TUTTI_FAKE_GPU_BUSY",
    "TUTTI_FAKE_GPU_CAPABILITY",
    "TUTTI_FAKE_GPU_CONTEXT_MS",
    "TUTTI_FAKE_GPU_COOPERATIVE_ALONE",
    "TUTTI_FAKE_GPU_CORRUPT",
    "TUTTI_FAKE_GPU_DEVICES",
    "TUTTI_FAKE_GPU_DMA_BUF",
    "TUTTI_FAKE_GPU_DRIVER",
    "TUTTI_FAKE_GPU_IMPORTS",
    "TUTTI_FAKE_GPU_LATE_US",
    "TUTTI_FAKE_GPU_MEMORY_MB",
    "TUTTI_FAKE_GPU_MIG",
    "TUTTI_FAKE_GPU_MULTICAST",
    "TUTTI_FAKE_GPU_MULTICAST_BEST_MB",
    "TUTTI_FAKE_GPU_MULTICAST_LEAST_MB",
    "TUTTI_FAKE_GPU_MULTICAST_MB",
    "TUTTI_FAKE_GPU_MULTICAST_OBJECTS",
    "TUTTI_FAKE_GPU_NVLINK",
    "TUTTI_FAKE_GPU_NIC_REFUSES",
    "TUTTI_FAKE_GPU_PEERS",
    "TUTTI_FAKE_GPU_PINNED_MB",
    "TUTTI_FAKE_GPU_QUEUES",
    "TUTTI_FAKE_GPU_QUEUE_DEPTH",
    "TUTTI_FAKE_GPU_RDMA_ORDER",
    "TUTTI_FAKE_GPU_SMS",
    "TUTTI_FAKE_GPU_SYNC",
    "TUTTI_FAKE_GPU_TEST_PIPES",
    "TUTTI_FAKE_GPU_THREADS",
    // Builds of the packages of Python and PyTorch, and their tests
    "TUTTI_BUILD",
    "TUTTI_CUDA",
    "TUTTI_FAKE_GPU",
    "TUTTI_HOME",
    "TUTTI_LIBRARY",
    "TUTTI_SUITE_RESULTS",
    "TUTTI_SUITE_STAND_IN",
    "TUTTI_SUITE_START",
    "TUTTI_TEST_BUILD",
    "TUTTI_TEST_KILLS",
    "TUTTI_TEST_SEED",
    "TUTTI_WHEELS",
    // Other tests
    "TUTTI_FRAMEWORKS_DIR",
    "TUTTI_GUEST_CACHE",
    "TUTTI_GUEST_SECONDS",
    "TUTTI_NCCL_EXAMPLE_PROFILER",
    "TUTTI_NCCL_EXAMPLE_TUNER",
    "TUTTI_NCCL_TESTS_DIR",
    "TUTTI_TEST_NET",
});

}  // namespace

std::string UnknownSettingsIn(std::span<const std::string_view> environment, std::span<const std::string_view> settings,
                              std::span<const std::string_view> former_names) {
  constexpr std::string_view kPrefix = "TUTTI_";
  std::vector<std::string_view> known(settings.begin(), settings.end());
  known.insert(known.end(), kOthers.begin(), kOthers.end());
  std::vector<std::string_view> ends;  // the common beginning would make all names alike
  for (const auto name : known) ends.push_back(name.substr(kPrefix.size()));
  std::string told;
  for (const auto entry : environment) {
    const auto name = entry.substr(0, entry.find('='));
    if (!name.starts_with(kPrefix) || std::ranges::find(known, name) != known.end()) continue;
    if (std::ranges::find(former_names, name) != former_names.end()) continue;
    const auto nearest = NearestName(name.substr(kPrefix.size()), ends);
    told += fmt::format("tutti: {} is not a setting{} (`tutti settings` lists them)\n", Printable(name),
                        nearest.empty() ? "" : fmt::format("; did you mean {}{}?", kPrefix, nearest));
  }
  return told;
}

}  // namespace tutti
