// Collectives with a configuration of their own, and requests that have no meaning for Tutti.
#include <array>

#include "interop/nccl/tests/testing.h"

namespace tutti::nccl::testing {
namespace {

ncclResult_t Reduce(ncclComm_t comm, const ncclCollConfig_t* config) {
  float value = 1;
  return ncclAllReduceConfig(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr, config);
}

TEST(NcclConfigured, CollectivesDoWhatThePlainOnesDo) {
  RunRanks(2, [](Rank& self) {
    const auto comm = Join(self);
    ncclCollConfig_t with = NCCL_COLLCONFIG_INITIALIZER;
    with.maxCTAs = 4;
    const int me = self.rank();
    for (const ncclCollConfig_t* config : {static_cast<const ncclCollConfig_t*>(nullptr), &std::as_const(with)}) {
      const std::array<int, 2> in{10 + me, 20 + me};
      std::array<int, 2> out{};
      ASSERT_TRUE(Ok(ncclAllReduceConfig(in.data(), out.data(), 2, ncclInt, ncclSum, comm, nullptr, config)));
      EXPECT_EQ(out, (std::array{21, 41}));
      ASSERT_TRUE(Ok(ncclReduceScatterConfig(in.data(), out.data(), 1, ncclInt, ncclSum, comm, nullptr, config)));
      EXPECT_EQ(out[0], me == 0 ? 21 : 41);
      ASSERT_TRUE(Ok(ncclAllGatherConfig(in.data(), out.data(), 1, ncclInt, comm, nullptr, config)));
      EXPECT_EQ(out, (std::array{10, 11}));
      ASSERT_TRUE(Ok(ncclAlltoAllConfig(in.data(), out.data(), 1, ncclInt, comm, nullptr, config)));
      EXPECT_EQ(out, (std::array{10 * (me + 1), 10 * (me + 1) + 1}));
      out = {};
      ASSERT_TRUE(Ok(ncclReduceConfig(in.data(), out.data(), 2, ncclInt, ncclMax, 1, comm, nullptr, config)));
      EXPECT_EQ(out, (me == 1 ? std::array{11, 21} : std::array{0, 0}));
      ASSERT_TRUE(Ok(ncclBroadcastConfig(in.data(), out.data(), 2, ncclInt, 1, comm, nullptr, config)));
      EXPECT_EQ(out, (std::array{11, 21}));
      out = {};
      ASSERT_TRUE(Ok(ncclGatherConfig(in.data(), out.data(), 1, ncclInt, 0, comm, nullptr, config)));
      EXPECT_EQ(out, (me == 0 ? std::array{10, 11} : std::array{0, 0}));
      ASSERT_TRUE(Ok(ncclScatterConfig(in.data(), out.data(), 1, ncclInt, 0, comm, nullptr, config)));
      EXPECT_EQ(out[0], 10 * (me + 1));
    }
  });
}

TEST(NcclConfigured, ConfigsAreChecked) {
  RunAlone([] {
    const auto comm = Alone();
    const auto refused = [&](auto change, ncclResult_t code, const char* word) {
      ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
      change(config);
      EXPECT_TRUE(Fails(Reduce(comm, &config), code, word)) << word;
    };
    using Config = ncclCollConfig_t;
    refused([](Config& c) { c.magic = 0; }, ncclInvalidArgument, "NCCL_COLLCONFIG_INITIALIZER");
    refused([](Config& c) { c.size = 8; }, ncclInvalidArgument, "NCCL_COLLCONFIG_INITIALIZER");
    refused([](Config& c) { c.minCTAs = 0; }, ncclInvalidArgument, "minCTAs is 0");
    refused([](Config& c) { c.cgaClusterSize = 9; }, ncclInvalidArgument, "cgaClusterSize");
    refused([](Config& c) { c.minCTAs = 8, c.maxCTAs = 4; }, ncclInvalidArgument, "more than config.maxCTAs");
    refused([](Config& c) { c.algSelection = "ring"; }, ncclInvalidUsage, "TUTTI_ALGO");
    ncclCollConfig_t wish = NCCL_COLLCONFIG_INITIALIZER;
    wish.algSelection = "ring";
    wish.forceAlgSelection = 0;
    EXPECT_TRUE(Ok(Reduce(comm, &wish)));
    // 2.31's struct ends before the event, whatever lies behind it.
    ncclCollConfig_t older = NCCL_COLLCONFIG_INITIALIZER;
    older.size = offsetof(ncclCollConfig_t, launchCompletionEvent);
    older.launchCompletionEvent = reinterpret_cast<cudaEvent_t>(8);
    EXPECT_TRUE(Ok(Reduce(comm, &older)));
  });
}

TEST(NcclConfigured, EncryptionIsRefused) {
  RunAlone([] {
    ncclEncryptionConfig_t config = NCCL_ENCRYPTION_CONFIG_INITIALIZER;
    EXPECT_TRUE(Ok(ncclSetEncryption(&config)));
    config.mode = NCCL_ENCRYPTION_MODE_PSK;
    config.psk = "secret";
    EXPECT_TRUE(Fails(ncclSetEncryption(&config), ncclInvalidUsage, "TUTTI_DATA_PROTECTION=encrypt"));
    config.mode = 7;
    EXPECT_TRUE(Fails(ncclSetEncryption(&config), ncclInvalidArgument, "mode is 7"));
    EXPECT_TRUE(Fails(ncclSetEncryption(nullptr), ncclInvalidArgument, "config is NULL"));
  });
}

TEST(NcclConfigured, SlotsOfAnAllToAllInAKernelAreCounted) {
  EXPECT_EQ(ncclLLA2ACalcSlots(3, 8), 3);
  EXPECT_EQ(ncclLLA2ACalcSlots(3, 9), 6);
}

}  // namespace
}  // namespace tutti::nccl::testing
