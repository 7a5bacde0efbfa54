#include <gtest/gtest.h>

#include "selection/cost_model/machine_of_system.h"
#include "selection/tuner/tuner.h"

namespace tutti::tuner {
namespace {

// As measured on an H100 (docs/notebook/performance/shared_gpu.md): peer memory moves every byte once, while the
// others' steps move some again.
TEST(TunerOfOneGpu, UsesItsMemoryWithMostOfItsBlocks) {
  constexpr double kH100 = 3352;  // GB/s
  constexpr int kBlocks = 264;
  for (const int nranks : {2, 4, 8}) {
    cost_model::TuningContext tuning;
    tuning.nranks = nranks;
    tuning.bulk_capacity = 48 * 1024;
    cost_model::FitToGpus(kBlocks, nranks, true, tuning);
    tuning.gpu_slots = {true, true, 2048, 8 * 1024, 48 * 1024, true};
    tuning.one_launch = true;
    const cost_model::Machine machine = cost_model::MachineOfOneGpu(nranks, 90, kH100, {256});
    Tuner tuner(machine, tuning);
    for (const auto collective : {schedule::Collective::all_reduce, schedule::Collective::all_gather}) {
      constexpr std::size_t kBytes = std::size_t{1} << 30;  // of the buffer, or of a rank's block
      const auto large = tuner.Compare({collective}, kBytes).front();
      EXPECT_EQ(large.algorithm, tuttiAlgorithmPeerMemory);
      EXPECT_GE(large.candidate.channels * nranks, kBlocks / 2);
      // Each input is read once and each output written once.
      const int buffers = collective == schedule::Collective::all_reduce ? 2 * nranks : (1 + nranks) * nranks;
      const double least = buffers * static_cast<double>(kBytes) / (kH100 * 1e3);
      EXPECT_GT(large.us, least);
      EXPECT_LT(large.us, 1.3 * least);
      EXPECT_EQ(tuner.Compare({collective}, 8).front().candidate.channels, 1);
    }
  }
}

}  // namespace
}  // namespace tutti::tuner
