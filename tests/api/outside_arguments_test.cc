// Arguments that are wrong before a communicator exists, or without one: null handles, memory, init, settings.
#include <array>
#include <string>

#include "testing/elements.h"
#include "testing/ranks.h"

namespace tutti::testing {
namespace {

TEST(OutsideArguments, NullCommunicators) {
  RunAlone([] {
    std::array<float, 4> a{}, b{};
    const std::vector<std::string> words = {"comm", "NULL"};
    EXPECT_TRUE(Fails(tuttiAllReduce(a.data(), b.data(), 4, tuttiFloat32, tuttiSum, nullptr, nullptr),
                      tuttiInvalidArgument, words));
    EXPECT_TRUE(Fails(tuttiBarrier(nullptr, nullptr), tuttiInvalidArgument, words));
    EXPECT_TRUE(Fails(tuttiSend(a.data(), 4, tuttiFloat32, 0, nullptr, nullptr), tuttiInvalidArgument, words));
    EXPECT_TRUE(Fails(tuttiCommDestroy(nullptr), tuttiInvalidArgument, words));
    EXPECT_TRUE(Fails(tuttiCommAbort(nullptr), tuttiInvalidArgument, words));
    EXPECT_TRUE(Fails(tuttiCommFinalize(nullptr), tuttiInvalidArgument, words));
    int number = 0;
    EXPECT_TRUE(Fails(tuttiCommCount(nullptr, &number), tuttiInvalidArgument, words));
    tuttiComm_t part = nullptr;
    EXPECT_TRUE(Fails(tuttiCommSplit(nullptr, 0, 0, &part, nullptr), tuttiInvalidArgument, words));
  });
}

TEST(OutsideArguments, WithoutACommunicator) {
  RunAlone([] {
    EXPECT_TRUE(Fails(tuttiGetVersion(nullptr), tuttiInvalidArgument, {"version"}));
    EXPECT_TRUE(Fails(tuttiGetUniqueId(nullptr), tuttiInvalidArgument, {"NULL"}));
    EXPECT_TRUE(Fails(tuttiMemAlloc(nullptr, 1), tuttiInvalidArgument, {"ptr"}));
    void* memory = nullptr;
    EXPECT_TRUE(Fails(tuttiMemAlloc(&memory, 0), tuttiInvalidArgument, {"size"}));
    EXPECT_TRUE(Fails(tuttiMemAlloc(&memory, static_cast<std::size_t>(-1)), tuttiInvalidArgument, {"size"}));
    EXPECT_TRUE(Ok(tuttiMemFree(nullptr)));
    int local = 0;
    EXPECT_TRUE(Fails(tuttiMemFree(&local), tuttiInvalidArgument, {"ptr"}));
    EXPECT_TRUE(Fails(tuttiStreamCreate(nullptr), tuttiInvalidArgument, {"stream"}));
    EXPECT_TRUE(Fails(tuttiStreamDestroy(nullptr), tuttiInvalidArgument, {"stream"}));
    EXPECT_TRUE(Fails(tuttiStreamSynchronize(nullptr), tuttiInvalidArgument, {"stream"}));
    EXPECT_TRUE(Fails(tuttiStreamQuery(nullptr), tuttiInvalidArgument, {"stream"}));
    tuttiStream_t stream = nullptr;
    ASSERT_TRUE(Ok(tuttiStreamCreate(&stream)));
    ASSERT_TRUE(Ok(tuttiStreamDestroy(stream)));
    EXPECT_TRUE(Fails(tuttiStreamDestroy(stream), tuttiInvalidArgument, {"stream", "has been destroyed"}));
    EXPECT_TRUE(Fails(tuttiStreamSynchronize(stream), tuttiInvalidArgument, {"stream", "has been destroyed"}));
    EXPECT_TRUE(Fails(tuttiGroupEnd(), tuttiInvalidUsage, {"tuttiGroupStart"}));
    EXPECT_TRUE(Fails(tuttiCommInitAll(nullptr, 2, nullptr), tuttiInvalidArgument, {"comms"}));
    tuttiComm_t comm = nullptr;
    EXPECT_TRUE(Fails(tuttiCommInitAll(&comm, 0, nullptr), tuttiInvalidArgument, {"ndev"}));
    EXPECT_TRUE(Fails(tuttiCommInitAll(&comm, -7, nullptr), tuttiInvalidArgument, {"ndev", "-7"}));
    // Codes that do not exist also get a phrase.
    EXPECT_NE(std::string(tuttiGetErrorString(Odd<tuttiResult_t>(77))), "");
    EXPECT_NE(std::string(tuttiGetErrorString(Odd<tuttiResult_t>(-1))), "");
    EXPECT_NE(tuttiAlgorithmName(Odd<tuttiAlgorithm_t>(99)), nullptr);
  });
}

TEST(OutsideArguments, OfInit) {
  RunAlone([] {
    tuttiUniqueId id;
    ASSERT_TRUE(Ok(tuttiGetUniqueId(&id)));
    tuttiComm_t comm = nullptr;
    EXPECT_TRUE(Fails(tuttiCommInitRank(nullptr, 1, id, 0), tuttiInvalidArgument, {"comm"}));
    EXPECT_TRUE(Fails(tuttiCommInitRank(&comm, 0, id, 0), tuttiInvalidArgument, {"nranks"}));
    EXPECT_TRUE(Fails(tuttiCommInitRank(&comm, -1, id, 0), tuttiInvalidArgument, {"nranks", "-1"}));
    EXPECT_TRUE(Fails(tuttiCommInitRank(&comm, 2, id, 2), tuttiInvalidArgument, {"rank", "2"}));
    EXPECT_TRUE(Fails(tuttiCommInitRank(&comm, 2, id, -1), tuttiInvalidArgument, {"rank", "-1"}));
    tuttiUniqueId garbage;
    std::memset(&garbage, 0x5a, sizeof garbage);
    EXPECT_TRUE(Fails(tuttiCommInitRank(&comm, 1, garbage, 0), tuttiInvalidArgument, {"id"}));
    std::memset(&garbage, 0, sizeof garbage);
    EXPECT_TRUE(Fails(tuttiCommInitRank(&comm, 1, garbage, 0), tuttiInvalidArgument, {"id"}));

    const auto with = [&](auto change) {
      tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
      change(config);
      return tuttiCommInitRankConfig(&comm, 1, id, 0, &config);
    };
    EXPECT_TRUE(Fails(with([](auto& c) { c.magic = 1; }), tuttiInvalidArgument, {"TUTTI_CONFIG_INITIALIZER"}));
    EXPECT_TRUE(Fails(with([](auto& c) { c.size = 3; }), tuttiInvalidArgument, {"TUTTI_CONFIG_INITIALIZER"}));
    EXPECT_TRUE(Fails(with([](auto& c) { c.channels = 33; }), tuttiInvalidArgument, {"channels", "33"}));
    EXPECT_TRUE(Fails(with([](auto& c) { c.channels = 0; }), tuttiInvalidArgument, {"channels", "0"}));
    EXPECT_TRUE(Fails(with([](auto& c) { c.threads = -1; }), tuttiInvalidArgument, {"threads", "-1"}));
    EXPECT_TRUE(Fails(with([](auto& c) { c.blocking = 2; }), tuttiInvalidArgument, {"blocking"}));
    EXPECT_TRUE(Fails(with([](auto& c) { c.deterministic = 5; }), tuttiInvalidArgument, {"deterministic"}));
    EXPECT_TRUE(Fails(with([](auto& c) { c.initTimeoutMs = -1; }), tuttiInvalidArgument, {"initTimeoutMs"}));
    EXPECT_TRUE(Fails(with([](auto& c) { c.operationTimeoutMs = -4; }), tuttiInvalidArgument, {"operationTimeoutMs"}));
    EXPECT_TRUE(Fails(with([](auto& c) { c.algorithm = "rign"; }), tuttiInvalidArgument, {"rign", "ring"}));
  });
}

TEST(OutsideArguments, SettingsThatDisagree) {
  RunRanks(2, [](Rank& self) {
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.algorithm = self.rank() == 0 ? "ring" : "direct";
    Comm comm;
    EXPECT_TRUE(Fails(tuttiCommInitRankConfig(comm.address(), 2, self.IdOf(), self.rank(), &config), tuttiInvalidUsage,
                      {"algorithm", "ring", "direct"}));
    self.Meet();
  });
}

TEST(OutsideArguments, EnvironmentVariablesThatAreWrong) {
  const auto refuses = [](const char* name, const char* value) {
    RunAlone(
        [&] {
          tuttiUniqueId id;
          EXPECT_TRUE(Fails(tuttiGetUniqueId(&id), tuttiInvalidArgument, {name, value}));
          tuttiComm_t comm = nullptr;
          EXPECT_TRUE(Fails(tuttiCommInitAll(&comm, 1, nullptr), tuttiInvalidArgument, {name, value}));
        },
        {.environment = {{name, value}}});
  };
  refuses("TUTTI_CHANNELS", "many");
  refuses("TUTTI_TIMEOUT_MS", "-1");
  refuses("TUTTI_WAIT", "patiently");
  refuses("TUTTI_CMA", "2");
}

}  // namespace
}  // namespace tutti::testing
