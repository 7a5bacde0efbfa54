#include "transports/shm/descriptors/descriptor_mail.h"

#include <gtest/gtest.h>

#include <thread>

#include "transports/shm/fabric_testing.h"

namespace tutti::shm {
namespace {

// Runs threads that pretend to be as many processes of one host.
template <typename Body>
void RunProcesses(int ranks, Body&& body) {
  const auto thrown = RunThreadRanks(ranks, [&](int rank, const AllGather& all_gather) {
    const std::vector<int> host_of(static_cast<std::size_t>(ranks));
    std::vector<int> process_of;
    for (int r = 0; r < ranks; ++r) process_of.push_back(r);
    const DescriptorMail mail({rank, {host_of, host_of}, process_of}, all_gather,
                              Deadline::After(std::chrono::seconds(60)));
    body(rank, mail, all_gather);
  });
  EXPECT_EQ(thrown, std::vector<std::string>(static_cast<std::size_t>(ranks)));
}

TEST(DescriptorMail, ReachesEachRankWithItsLetter) {
  constexpr int kRanks = 3;
  RunProcesses(kRanks, [](int rank, const DescriptorMail& mail, const AllGather& all_gather) {
    EXPECT_FALSE(mail.Receive());
    all_gather({});  // before any is sent
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer == rank) continue;
      EXPECT_TRUE(mail.Send(peer, {rank, 7, static_cast<std::uint32_t>(peer), 99}, FileOf(10 * rank + peer)));
    }
    all_gather({});
    for (int each = 1; each < kRanks; ++each) {
      const auto got = mail.Receive();
      ASSERT_TRUE(got);
      EXPECT_NE(got->letter.from, rank);
      EXPECT_EQ(got->letter.subject, 7U);
      EXPECT_EQ(got->letter.number, static_cast<std::uint32_t>(rank));
      EXPECT_EQ(got->letter.bytes, 99U);
      EXPECT_EQ(RankIn(got->file), 10 * got->letter.from + rank);
    }
    EXPECT_FALSE(mail.Receive());
  });
}

// The sender never waits, and loses nothing that was taken.
TEST(DescriptorMail, AFullBoxRefuses) {
  RunProcesses(2, [](int rank, const DescriptorMail& mail, const AllGather& all_gather) {
    constexpr std::uint32_t kMany = 100'000;
    std::uint32_t sent = 0;
    const auto file = FileOf(5);
    if (rank == 0) {
      while (sent < kMany && mail.Send(1, {0, 0, sent, 0}, file)) ++sent;
      EXPECT_GT(sent, 64U);
      EXPECT_LT(sent, kMany);
    }
    all_gather({});
    if (rank == 1) {
      std::uint32_t got = 0;
      while (const auto delivery = mail.Receive()) EXPECT_EQ(delivery->letter.number, got++);
      EXPECT_GT(got, 64U);
    }
    all_gather({});
    if (rank == 0) {
      EXPECT_TRUE(mail.Send(1, {0, 0, sent, 0}, file));
    }
    all_gather({});
  });
}

TEST(DescriptorMail, ARankThatIsGoneHasGotIt) {
  RunProcesses(2, [](int rank, const DescriptorMail& mail, const AllGather& all_gather) {
    if (rank == 1) return;
    // Its box closes when it has left.
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    for (int i = 0; i < 1000; ++i) EXPECT_TRUE(mail.Send(1, {0, 0, 0, 0}, FileOf(1))) << i;
    (void)all_gather;
  });
}

// A letter in the name of a rank that may not write is dropped.
TEST(DescriptorMail, KnowsItsSenders) {
  RunProcesses(2, [](int rank, const DescriptorMail& mail, const AllGather& all_gather) {
    if (rank == 0) {
      for (const int from : {-1, 1, 2}) EXPECT_TRUE(mail.Send(1, {from, 0, 0, 0}, FileOf(1)));
      EXPECT_TRUE(mail.Send(1, {0, 0, 4, 0}, FileOf(1)));
    }
    all_gather({});
    if (rank == 1) {
      const auto got = mail.Receive();
      ASSERT_TRUE(got);
      EXPECT_EQ(got->letter.number, 4U);
      EXPECT_FALSE(mail.Receive());
    }
  });
}

}  // namespace
}  // namespace tutti::shm
