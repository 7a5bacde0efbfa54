#include "src/plan/planning.h"

#include <gtest/gtest.h>

#include "algorithms/verifier/verify.h"

namespace tutti::plan {
namespace {

// A message is a broadcast in place between two ranks, so the verifier can prove that it arrives: in each channel once,
// with any number of slots, and while slots refer to the sender's memory.
TEST(MessageSchedule, IsVerified) {
  for (const int channels : {1, 3, 32}) {
    std::vector<schedule::Schedule> ranks;
    for (const int rank : {0, 1}) {
      Operation operation;
      operation.collective = rank == 0 ? schedule::Collective::send : schedule::Collective::receive;
      operation.root = 1 - rank;
      auto schedule = MessageSchedule(operation, rank, 2, channels);
      EXPECT_EQ(schedule.channels.size(), static_cast<std::size_t>(channels));
      schedule.collective = schedule::Collective::broadcast;
      ranks.push_back(std::move(schedule));
    }
    for (const int depth : {1, 4}) {
      for (const bool by_reference : {false, true}) {
        for (const int length : {0, 1, 9}) {
          verifier::VerifyOptions options;
          options.lengths = {{length}};
          options.slot_depth = depth;
          options.in_place = true;
          options.by_reference = by_reference;
          options.operations = 2;
          EXPECT_EQ(verifier::Verify(ranks, options).value_or(""), "")
              << channels << " channels, depth " << depth << ", length " << length;
        }
      }
    }
    // It can fail.
    ranks[1].channels.back().lanes.front().steps.front().reads = {schedule::In(0)};
    EXPECT_NE(verifier::Verify(ranks, {.in_place = true}), std::nullopt);
  }
}

}  // namespace
}  // namespace tutti::plan
