#include "transports/shm/fabric.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <utility>

#include "base/all_gather.h"
#include "base/error.h"
#include "transports/shm/fabric_testing.h"
#include "transports/shm/process_register.h"
#include "transports/shm/shared_segments.h"

namespace tutti::shm {
namespace {

constexpr int kChannels = 1;

Hosts OneHost(int ranks) {
  return {std::vector<int>(static_cast<std::size_t>(ranks), 0), std::vector<int>(static_cast<std::size_t>(ranks), 0)};
}

TEST(Fabric, RanksOfOneProcessSeeOneMapping) {
  constexpr int kRanks = 4;
  std::vector<std::byte*> seen(kRanks * kRanks);
  const auto thrown = RunThreadRanks(kRanks, [&](int rank, const AllGather& all_gather) {
    const Fabric fabric(rank, OneHost(kRanks), kChannels, Settings{}, all_gather, Ample());
    EXPECT_TRUE(fabric.all_same_process());
    for (int r = 0; r < kRanks; ++r) seen[static_cast<std::size_t>(rank * kRanks + r)] = fabric.segment(r);
    all_gather({});
  });
  EXPECT_EQ(thrown, std::vector<std::string>(kRanks));
  for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], seen[i % kRanks]) << i;
}

// A rank takes part in an exchange, then vanishes with its memory.
TEST(Fabric, ARankOfThisProcessThatFailsInInitTakesNobodyAlong) {
  constexpr int kRanks = 4, kFails = 2, kTrials = 20;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::atomic<bool> failed{false};
    const auto thrown = RunThreadRanks(kRanks, [&](int rank, const AllGather& all_gather) {
      int exchanges = 0;
      const AllGather gather = [&](std::span<const std::byte> mine) {
        auto all = all_gather(mine);
        if (++exchanges > 1) return all;
        if (rank == kFails) Throw(tuttiSystemError, "this rank has no descriptors left");
        // The other ranks go on only when it has unmapped everything.
        while (!failed.load()) std::this_thread::yield();
        return all;
      };
      try {
        const Fabric fabric(rank, OneHost(kRanks), kChannels, Settings{}, gather, Ample());
      } catch (const Error&) {
        if (rank == kFails) failed.store(true);
        throw;
      }
    });
    for (const auto& text : thrown) EXPECT_NE(text, "");
  }
}

// A rank of another process that claims to be of this one is not believed: it is looked for in this process's register,
// and not found there.
TEST(Fabric, ThePeersWordDoesNotMakeItARankOfThisProcess) {
  EXPECT_EQ(FindOffer<Mapping>(RegisterKey{}, 0), nullptr);
  const auto segment = Segment::Create("tutti-test", 4096);
  const Offer offer(3, segment.mapping());
  EXPECT_EQ(FindOffer<Mapping>(offer.key(), 3), segment.mapping());
  EXPECT_EQ(FindOffer<Mapping>(offer.key(), 2), nullptr) << "another rank's";
  EXPECT_EQ(FindOffer<int>(offer.key(), 3), nullptr) << "of another type";
}

// A peer's word about its process is not believed either: here a peer gives the process of the rank that asks. That rank
// would read its own memory wherever the peer points.
TEST(Fabric, APeerIsNotThisProcess) {
  constexpr int kRanks = 2;
  const auto thrown = RunThreadRanks(kRanks, [&](int rank, const AllGather& all_gather) {
    bool first = true;
    const AllGather gather = [&](std::span<const std::byte> mine) {
      auto all = all_gather(mine);
      // The introductions begin with the name of the process.
      if (std::exchange(first, false)) all[1].at(0) ^= std::byte{1};
      return all;
    };
    const Fabric fabric(rank, OneHost(kRanks), kChannels, Settings{}, gather, Ample());
    EXPECT_FALSE(fabric.same_process(1 - rank));
    EXPECT_FALSE(fabric.cma());
    all_gather({});
  });
  EXPECT_EQ(thrown, std::vector<std::string>(kRanks));
}

TEST(Fabric, AnOfferEndsWithItsScope) {
  RegisterKey key;
  std::shared_ptr<Mapping> found;
  {
    auto segment = Segment::Create("tutti-test", 4096);
    const Offer offer(0, segment.mapping());
    key = offer.key();
    found = FindOffer<Mapping>(key, 0);
  }
  EXPECT_EQ(FindOffer<Mapping>(key, 0), nullptr);
  ASSERT_NE(found, nullptr);
  found->data()[4095] = std::byte{1};  // it lives on
}

TEST(ShareSegments, ARankThatFailsTakesNobodyAlong) {
  constexpr int kRanks = 3;
  std::atomic<bool> failed{false};
  const auto thrown = RunThreadRanks(kRanks, [&](int rank, const AllGather& all_gather) {
    const Fabric fabric(rank, OneHost(kRanks), kChannels, Settings{}, all_gather, Ample());
    int exchanges = 0;
    const AllGather gather = [&](std::span<const std::byte> mine) {
      auto all = all_gather(mine);
      if (++exchanges > 1) return all;
      if (rank == 1) Throw(tuttiSystemError, "this rank fails");
      while (!failed.load()) std::this_thread::yield();
      return all;
    };
    try {
      const auto segments = ShareSegments(fabric, "tutti-test", 4096, gather, Ample());
    } catch (const Error&) {
      if (rank == 1) failed.store(true);
      throw;
    }
  });
  for (const auto& text : thrown) EXPECT_NE(text, "");
}

}  // namespace
}  // namespace tutti::shm
