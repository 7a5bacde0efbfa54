// Communicators: all ways to join, non-blocking ones, Split, configs, and how they describe themselves.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "testing/free_port.h"
#include "testing/ranks.h"

extern "C" int TuttiFromC99(void);

namespace tutti::testing {
namespace {

// The sum of all ranks' `value`.
double Sum(tuttiComm_t comm, double value) {
  EXPECT_TRUE(Ok(tuttiAllReduce(&value, &value, 1, tuttiFloat64, tuttiSum, comm, nullptr)));
  return value;
}

TEST(Joining, ByEnvironment) {
  for (const char* secret : {"", "not for strangers"}) {
    const auto port = std::to_string(FreePort());
    RunRanks(3,
             [](Rank& self) {
               setenv("RANK", std::to_string(self.rank()).c_str(), 1);
               setenv("WORLD_SIZE", "3", 1);
               Comm comm;
               ASSERT_TRUE(Ok(tuttiCommInitEnv(comm.address(), nullptr)));
               EXPECT_EQ(RankIn(comm), self.rank());
               EXPECT_EQ(SizeOf(comm), 3);
               EXPECT_EQ(Sum(comm, self.rank()), 3);
             },
             {.environment = {{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}, {"TUTTI_SECRET", secret}}});
  }
}

TEST(Joining, ByAnEnvironmentWithHolesIsRefused) {
  RunAlone([] {
    tuttiComm_t comm = nullptr;
    for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) unsetenv(name);
    setenv("WORLD_SIZE", "2", 1);
    EXPECT_TRUE(Fails(tuttiCommInitEnv(&comm, nullptr), tuttiInvalidUsage,
                      {"RANK is not set, but WORLD_SIZE is", "MASTER_ADDR", "MASTER_PORT"}));
    setenv("RANK", "2", 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", "1", 1);
    EXPECT_TRUE(Fails(tuttiCommInitEnv(&comm, nullptr), tuttiInvalidUsage, {"RANK"}));
  });
}

TEST(Joining, ByNoEnvironmentIsAJobOfOneRank) {
  RunAlone([] {
    for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) unsetenv(name);
    Comm comm;
    ASSERT_TRUE(Ok(tuttiCommInitEnv(comm.address(), nullptr)));
    EXPECT_EQ(SizeOf(comm), 1);
    EXPECT_EQ(Sum(comm, 7), 7);
  });
}

TEST(Joining, ManyRanksFromOneThread) {
  RunAlone([] {
    constexpr int kRanks = 5;
    std::array<tuttiComm_t, kRanks> comms{};
    tuttiUniqueId id;
    ASSERT_TRUE(Ok(tuttiGetUniqueId(&id)));
    ASSERT_TRUE(Ok(tuttiGroupStart()));
    for (int r = 0; r < kRanks; ++r)
      ASSERT_TRUE(Ok(tuttiCommInitRank(&comms[static_cast<std::size_t>(r)], kRanks, id, r)));
    ASSERT_TRUE(Ok(tuttiGroupEnd()));
    for (int r = 0; r < kRanks; ++r) EXPECT_EQ(RankIn(comms[static_cast<std::size_t>(r)]), r);
    for (auto* comm : comms) EXPECT_TRUE(Ok(tuttiCommDestroy(comm)));
  });
}

TEST(Joining, OverAndOver) {
  RunRanks(2, [](Rank& self) {
    for (int which = 0; which < 8; ++which) {
      const auto comm = self.Join(nullptr, which);
      EXPECT_EQ(Sum(comm, which), 2 * which);
    }
  });
}

TEST(Nonblocking, CallsReturnAtOnceAndEndLater) {
  RunRanks(3, [](Rank& self) {
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.blocking = 0;
    Comm comm;
    ASSERT_EQ(tuttiCommInitRankConfig(comm.address(), 3, self.IdOf(), self.rank(), &config), tuttiInProgress);
    ASSERT_NE(static_cast<tuttiComm_t>(comm), nullptr);
    ASSERT_EQ(Await(comm), tuttiSuccess);
    for (int round = 1; round <= 5; ++round) {
      std::vector<float> data(5000, static_cast<float>(self.rank() + round));
      ASSERT_EQ(tuttiAllReduce(data.data(), data.data(), data.size(), tuttiFloat32, tuttiSum, comm, nullptr),
                tuttiInProgress);
      ASSERT_EQ(Await(comm), tuttiSuccess);
      EXPECT_EQ(data.back(), static_cast<float>(3 + 3 * round));
    }
    // Several at once, in a group.
    float a = 1, b = 2;
    ASSERT_TRUE(Ok(tuttiGroupStart()));
    ASSERT_TRUE(Ok(tuttiAllReduce(&a, &a, 1, tuttiFloat32, tuttiSum, comm, nullptr)));
    ASSERT_TRUE(Ok(tuttiAllReduce(&b, &b, 1, tuttiFloat32, tuttiSum, comm, nullptr)));
    ASSERT_EQ(tuttiGroupEnd(), tuttiInProgress);
    ASSERT_EQ(Await(comm), tuttiSuccess);
    EXPECT_EQ(a, 3);
    EXPECT_EQ(b, 6);
  });
}

TEST(Nonblocking, UseBeforeTheEndOfJoiningIsRefused) {
  RunRanks(2, [](Rank& self) {
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.blocking = 0;
    Comm comm;
    const auto id = self.IdOf();
    if (self.rank() == 0) {
      ASSERT_EQ(tuttiCommInitRankConfig(comm.address(), 2, id, 0, &config), tuttiInProgress);
      EXPECT_TRUE(Fails(tuttiBarrier(comm, nullptr), tuttiInvalidUsage, {"tuttiCommGetAsyncError"}));
    }
    self.Meet();
    if (self.rank() == 1) {
      ASSERT_EQ(tuttiCommInitRankConfig(comm.address(), 2, id, 1, &config), tuttiInProgress);
    }
    ASSERT_EQ(Await(comm), tuttiSuccess);
    ASSERT_EQ(tuttiBarrier(comm, nullptr), tuttiInProgress);
    ASSERT_EQ(Await(comm), tuttiSuccess);
  });
}

// A failure that leaves the communicator usable is told, once.
TEST(Nonblocking, AFailureOfACallIsToldOnce) {
  RunAlone([] {
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.blocking = 0;
    tuttiComm_t joining = nullptr;
    ASSERT_EQ(tuttiCommInitEnv(&joining, &config), tuttiInProgress);
    const Comm comm(joining);
    ASSERT_EQ(Await(comm), tuttiSuccess);
    float sent[4] = {7}, received[8] = {};
    for (int round = 0; round < 2; ++round) {
      ASSERT_TRUE(Ok(tuttiGroupStart()));
      ASSERT_TRUE(Ok(tuttiSend(sent, 4, tuttiFloat32, 0, comm, nullptr)));
      ASSERT_TRUE(Ok(tuttiRecv(received, 8, tuttiFloat32, 0, comm, nullptr)));
      ASSERT_EQ(tuttiGroupEnd(), tuttiInProgress);
      EXPECT_EQ(Await(comm), tuttiInvalidUsage);
      EXPECT_STRNE(tuttiGetLastError(comm), "");
      EXPECT_EQ(Await(comm), tuttiSuccess);
    }
    ASSERT_EQ(tuttiBarrier(comm, nullptr), tuttiInProgress);
    EXPECT_EQ(Await(comm), tuttiSuccess);
  });
}

TEST(Split, ByColorAndKey) {
  for (const bool threads : {false, true}) {
    RunRanks(6,
             [](Rank& self) {
               const auto world = self.Join();
               // Rank 5 joins no part; the others split into even and odd ranks, in reverse order.
               const int color = self.rank() == 5 ? TUTTI_SPLIT_NOCOLOR : self.rank() % 2;
               Comm part;
               ASSERT_TRUE(Ok(tuttiCommSplit(world, color, -self.rank(), part.address(), nullptr)));
               if (color == TUTTI_SPLIT_NOCOLOR) {
                 EXPECT_EQ(static_cast<tuttiComm_t>(part), nullptr);
               } else {
                 EXPECT_EQ(SizeOf(part), color == 0 ? 3 : 2);
                 EXPECT_EQ(RankIn(part), color == 0 ? (4 - self.rank()) / 2 : (3 - self.rank()) / 2);
                 EXPECT_EQ(Sum(part, self.rank()), color == 0 ? 6 : 4);
                 // Splits again, into single ranks, with equal keys.
                 Comm alone;
                 ASSERT_TRUE(Ok(tuttiCommSplit(part, RankIn(part), 0, alone.address(), nullptr)));
                 EXPECT_EQ(SizeOf(alone), 1);
                 EXPECT_EQ(Sum(alone, 7), 7);
               }
               EXPECT_EQ(Sum(world, 1), 6) << "the parent works on";
             },
             {.threads = threads});
  }
}

TEST(Split, EqualKeysKeepTheOldOrder) {
  RunRanks(4, [](Rank& self) {
    const auto world = self.Join();
    Comm same;
    ASSERT_TRUE(Ok(tuttiCommSplit(world, 3, 0, same.address(), nullptr)));
    EXPECT_EQ(RankIn(same), self.rank());
  });
}

TEST(Split, OutlivesItsParent) {
  RunRanks(2, [](Rank& self) {
    auto world = self.Join();
    Comm part;
    ASSERT_TRUE(Ok(tuttiCommSplit(world, 0, 0, part.address(), nullptr)));
    world.Destroy();
    EXPECT_EQ(Sum(part, 2), 4);
  });
}

TEST(Split, WithAConfigOfItsOwn) {
  RunRanks(2, [](Rank& self) {
    const auto world = self.Join();
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.algorithm = "ring";
    Comm part;
    ASSERT_TRUE(Ok(tuttiCommSplit(world, 0, 0, part.address(), &config)));
    EXPECT_EQ(Sum(part, 2), 4);
    tuttiAlgorithm_t algorithm = tuttiAlgorithmNone;
    ASSERT_TRUE(Ok(tuttiCommGetLastAlgorithm(part, &algorithm)));
    EXPECT_EQ(algorithm, tuttiAlgorithmRing);
  });
}

TEST(Config, OlderAndNewerStructs) {
  RunAlone([] {
    // As built with an earlier header: it ends after `channels`, and the bytes after it are the application's.
    struct Older {
      size_t size;
      unsigned int magic, version;
      int blocking, channels;
      unsigned char beyond[64];
    } older{offsetof(Older, beyond), TUTTI_CONFIG_MAGIC, TUTTI_VERSION_CODE, TUTTI_CONFIG_UNDEF_INT, 2, {}};
    std::memset(older.beyond, 0x77, sizeof older.beyond);
    // Has a field that this library does not know.
    struct Newer {
      tuttiConfig_t known;
      int unknown[4];
    } newer{TUTTI_CONFIG_INITIALIZER, {1, 2, 3, 4}};
    newer.known.size = sizeof newer;
    newer.known.name = "newer";
    for (auto* config : {reinterpret_cast<tuttiConfig_t*>(&older), &newer.known}) {
      tuttiUniqueId id;
      ASSERT_TRUE(Ok(tuttiGetUniqueId(&id)));
      Comm comm;
      ASSERT_TRUE(Ok(tuttiCommInitRankConfig(comm.address(), 1, id, 0, config)));
      EXPECT_EQ(Sum(comm, 3), 3);
    }
  });
}

TEST(Config, NamesAppearInMessages) {
  RunRanks(2, [](Rank& self) {
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    std::string name = "the optimiser's";
    config.name = name.c_str();
    config.operationTimeoutMs = 100;
    const auto comm = self.Join(&config);
    name = "overwritten after init";
    if (self.rank() == 0) {
      EXPECT_TRUE(Fails(tuttiBarrier(comm, nullptr), tuttiTimeoutError, {"the optimiser's"}));
    }
    self.Meet();
  });
}

TEST(Library, WorksFromC99) {
  RunAlone([] { EXPECT_EQ(TuttiFromC99(), 0); });
}

TEST(Library, KnowsItsVersion) {
  RunAlone([] {
    int version = 0;
    ASSERT_TRUE(Ok(tuttiGetVersion(&version)));
    EXPECT_EQ(version, TUTTI_VERSION_CODE);
  });
}

}  // namespace
}  // namespace tutti::testing
