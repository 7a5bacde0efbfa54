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

// Two-level trees need seven thread blocks for each rank. Where nothing fits, all may be chosen: the launch refuses the call
// with the numbers.
TEST(RoomOfOneGpu, IsThereForWhatIsChosen) {
  const auto why_not = [&](tuttiAlgorithm_t algorithm, schedule::Collective collective, int room) {
    cost_model::TuningContext tuning;
    tuning.nranks = 24;
    tuning.where = schedule::ArrangeEvenly(24, 2);
    tuning.one_host = false;
    cost_model::ParseForcedAlgorithms("two_level_tree", 24, tuning.forced);
    cost_model::FitToGpus(room, 1, false, tuning);
    return cost_model::WhyNot(algorithm, {collective}, tuning);
  };
  using enum schedule::Collective;
  EXPECT_EQ(why_not(tuttiAlgorithmTwoLevelTree, all_reduce, 7), "");
  EXPECT_EQ(why_not(tuttiAlgorithmRing, all_reduce, 7), "two_level_tree is forced");
  EXPECT_EQ(why_not(tuttiAlgorithmTwoLevelTree, all_reduce, 6),
            "needs more thread blocks than a GPU has for each of its ranks (6)");
  EXPECT_EQ(why_not(tuttiAlgorithmRing, all_reduce, 6), "");
  EXPECT_EQ(why_not(tuttiAlgorithmDirect, all_to_all, 1), "")
      << "needs two, and so do all others that serve blocks of any length";
}

// On two hosts and on one, with and without a switch.
TEST(RoomOfOneGpu, IsThereForFewLanes) {
  for (const int hosts : {1, 2, 3}) {
    cost_model::TuningContext tuning;
    tuning.nranks = 12;
    tuning.where = schedule::ArrangeEvenly(12, hosts);
    tuning.one_host = hosts == 1;
    for (int c = 0; c < schedule::kScheduledCollectives; ++c) {
      for (const auto algorithm : builders::kAllAlgorithms) {
        const auto collective = static_cast<schedule::Collective>(c);
        if (builders::RecordOf(algorithm).needs.one_launch || builders::RecordOf(algorithm).from_file()) continue;
        const auto ranks = cost_model::RepresentativeRanks::Of(algorithm, tuning.Ask(collective));
        if (!ranks) continue;
        EXPECT_LE(ranks->unit().lanes, cost_model::kMostLanesOfAUnit) << builders::NameOf(algorithm);
      }
    }
  }
}

}  // namespace
}  // namespace tutti::tuner
