// Plug-ins that are missing, broken, or fail: each rank gets an error that names the plug-in and what it did, and no
// rank waits forever.
#include <csignal>
#include <ostream>

#include "tests/transports/plugin/on_plugin.h"

namespace tutti::testing {
namespace {

const std::string kFolder = TUTTI_TEST_NETS;

struct Fault {
  std::string name;
  std::string plugin;
  std::string misbehaviour;
  std::vector<std::string> words;  // in every rank's message
};

// Without it, a test's description would have addresses.
void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

std::string NameOfFault(const ::testing::TestParamInfo<Fault>& fault) { return fault.param.name; }

class PluginCannotBeUsed : public ::testing::TestWithParam<Fault> {};

TEST_P(PluginCannotBeUsed, InitSaysWhyOnEveryRank) {
  const auto& fault = GetParam();
  auto options = OnPlugin(fault.plugin, fault.misbehaviour);
  // Half of it is for the plug-in.
  options.environment.emplace_back("TUTTI_INIT_TIMEOUT_MS", "4000");
  RunRanks(
      2,
      [&](Rank& self) {
        Comm comm;
        const auto result = tuttiCommInitRank(comm.address(), self.size(), self.IdOf(), self.rank());
        EXPECT_TRUE(Fails(result, tuttiInvalidUsage, fault.words));
      },
      options);
}

INSTANTIATE_TEST_SUITE_P(
    If, PluginCannotBeUsed,
    ::testing::Values(
        Fault{"there_is_no_such_file",
              "/nowhere/libnccl-net-none.so",
              "",
              {"/nowhere/libnccl-net-none.so", "cannot load"}},
        Fault{"there_is_no_such_name", "nowhere", "", {"TUTTI_NET_PLUGIN=nowhere", "libnccl-net-nowhere.so", "rank 0"}},
        Fault{"it_is_no_library", TUTTI_TEST_NETS "/CTestTestfile.cmake", "", {"CTestTestfile.cmake", "cannot load"}},
        Fault{"it_has_no_table", "libcrypto.so.3", "", {"has none of ncclNetPlugin_v11", "ncclNetPlugin_v8"}},
        Fault{"its_table_is_old", kFolder + "/libnccl-net-testold.so", "", {"has none of", "(but ncclNetPlugin_v6)"}},
        Fault{"its_table_lacks_a_function", TestNet(9), "lacks=1", {"net plug-in Test0", "v9", "has no isend"}},
        Fault{"it_crashes_when_loaded", TestNet(11), "load_crashes=1", {"crashes when it is loaded", "signal 11"}},
        Fault{"it_exits_when_loaded", TestNet(11), "load_exits=3", {"ends the process that loads it", "status 3"}},
        Fault{"it_never_loads", TestNet(11), "load_hangs=1", {"libnccl-net-testv11.so", "still loading"}},
        Fault{"its_init_fails", TestNet(8), "init_fails=2", {"net plug-in Test0", "init returned 2 (system error)"}},
        Fault{"its_init_returns_nonsense", TestNet(10), "init_fails=77", {"init returned 77", "not a result"}},
        Fault{"its_init_throws", TestNet(11), "init_throws=1", {"libnccl-net-testv11.so", "should not do this"}},
        Fault{"its_init_never_returns", TestNet(11), "init_hangs=1", {"libnccl-net-testv11.so", "within 2000 ms"}},
        Fault{"it_has_no_device", TestNet(11), "devices=0", {"net plug-in Test0", "finds no device"}},
        Fault{"its_devices_fail", TestNet(9), "devices_fail=3", {"devices returned 3 (internal error)"}},
        Fault{"its_properties_fail", TestNet(8), "properties_fail=5", {"getProperties returned 5 (invalid usage)"}},
        Fault{"its_devices_take_no_host_memory", TestNet(10), "pointers=2", {"none of its 2 devices", "host memory"}},
        Fault{"its_messages_are_too_short", TestNet(11), "most_bytes=4000", {"at most 4000 bytes at a time"}},
        Fault{"its_connections_are_too_few", TestNet(11), "most_connections=3", {"at most 3 connections"}}),
    NameOfFault);

class PluginFails : public ::testing::TestWithParam<Fault> {};

// The error comes from a plug-in's function while the communicator is in use.
TEST_P(PluginFails, TheOperationSaysWhat) {
  const auto& fault = GetParam();
  RunRanks(
      2,
      [&](Rank& self) {
        // Rank 0's plug-in fails, rank 1's is well.
        setenv("TUTTI_TEST_NET", self.rank() == 0 ? fault.misbehaviour.c_str() : "", 1);
        const auto comm = self.Join();
        std::vector<float> data(100'000, 1);
        auto result = tuttiSuccess;
        for (int i = 0; i < 1'000 && result == tuttiSuccess; ++i) {
          result = tuttiAllReduce(data.data(), data.data(), data.size(), tuttiFloat32, tuttiMax, comm, nullptr);
        }
        EXPECT_NE(result, tuttiSuccess);
        const std::string message = tuttiGetLastError(comm);
        for (const auto& word : fault.words) EXPECT_NE(message.find(word), std::string::npos) << message;
      },
      OnPlugin(fault.plugin, fault.misbehaviour));
}

INSTANTIATE_TEST_SUITE_P(
    In, PluginFails,
    ::testing::Values(Fault{"listen", TestNet(8), "listen_fails=2", {"net plug-in Test0", "listen returned 2"}},
                      Fault{"connect", TestNet(9), "connect_fails=6", {"net plug-in Test0", "connect returned 6"}},
                      Fault{"accept", TestNet(10), "accept_fails=2", {"net plug-in Test0", "accept returned 2"}},
                      Fault{"regMr", TestNet(11), "register_fails=2", {"net plug-in Test0", "regMr returned 2"}},
                      Fault{"isend", TestNet(11), "isend_fails=30", {"net plug-in Test0", "isend returned 2"}},
                      Fault{"irecv", TestNet(11), "irecv_fails=40", {"net plug-in Test0", "irecv returned 2"}},
                      Fault{"test", TestNet(8), "test_fails=200", {"net plug-in Test0", "test returned 2"}}),
    NameOfFault);

TEST(PluginFaults, ADeviceWithTooFewConnectionsIsNamed) {
  constexpr int kRanks = 4;
  RunRanks(
      kRanks,
      [](Rank& self) {
        setenv("TUTTI_ALGO", "all_to_all:direct", 1);  // others need fewer
        const auto comm = self.Join();
        std::vector<float> data(kRanks * 1'000, 1), all(kRanks * 1'000);
        const auto result = tuttiAlltoAll(data.data(), all.data(), 1'000, tuttiFloat32, comm, nullptr);
        EXPECT_NE(result, tuttiSuccess);
        const std::string message = tuttiGetLastError(comm);
        EXPECT_NE(message.find("makes at most 6 connections"), std::string::npos) << message;
      },
      OnPlugin(TestNet(11), "most_connections=6"));
}

TEST(PluginFaults, RanksWithOtherSettingsOrPluginsAreToldSo) {
  const auto disagree = [](const char* variable, const std::vector<std::string>& values,
                           const std::vector<std::string>& words) {
    RunRanks(
        2,
        [&](Rank& self) {
          setenv(variable, values[static_cast<std::size_t>(self.rank())].c_str(), 1);
          Comm comm;
          const auto result = tuttiCommInitRank(comm.address(), self.size(), self.IdOf(), self.rank());
          EXPECT_TRUE(Fails(result, tuttiInvalidUsage, words));
        },
        OnPlugin(TestNet(11), ""));
  };
  disagree("TUTTI_NET_PLUGIN", {TestNet(11), TestNet(8)}, {"TUTTI_NET_PLUGIN", "rank 1", "testv8"});
  disagree("TUTTI_NET_PLUGIN", {TestNet(11), ""}, {"TUTTI_NET_PLUGIN", "rank 1"});
  disagree("TUTTI_TEST_NET", {"name=1", "name=2"}, {"different net plug-ins", "Test1", "rank 1", "Test2"});
}

TEST(PluginFaults, AKilledRankIsNamed) {
  auto options = OnPlugin(TestNet(11), "");
  options.may_die = {1};
  RunRanks(
      2,
      [](Rank& self) {
        const auto comm = self.Join();
        std::vector<float> data(1'000'000, 1);
        const auto call = [&] {
          return tuttiAllReduce(data.data(), data.data(), data.size(), tuttiFloat32, tuttiMax, comm, nullptr);
        };
        ASSERT_TRUE(Ok(call()));
        if (self.rank() == 1) KillThisProcessAfter(std::chrono::milliseconds(20));
        auto result = tuttiSuccess;
        while (result == tuttiSuccess) result = call();
        EXPECT_EQ(result, tuttiRemoteError);
        const std::string message = tuttiGetLastError(comm);
        EXPECT_NE(message.find("rank 1"), std::string::npos) << message;
      },
      options);
}

// The others' connections do not suffer from what they were about to receive from a rank that is gone.
TEST(PluginFaults, AKilledRankLeavesNothingThatIsClosedTooEarly) {
  constexpr int kRanks = 3;
  auto options = OnPlugin(TestNet(11), "tidy=1");
  options.environment.front().second = "3";
  options.may_die = {kRanks - 1};
  RunRanks(
      kRanks,
      [](Rank& self) {
        auto comm = self.Join();
        std::vector<float> data(1'000'000, 1);
        const auto call = [&](tuttiComm_t with) {
          return tuttiAllReduce(data.data(), data.data(), data.size(), tuttiFloat32, tuttiMax, with, nullptr);
        };
        ASSERT_TRUE(Ok(call(comm)));
        if (self.rank() == kRanks - 1) KillThisProcessAfter(std::chrono::milliseconds(20));
        auto result = tuttiSuccess;
        while (result == tuttiSuccess) result = call(comm);
        EXPECT_EQ(result, tuttiRemoteError);
        Comm rest;
        ASSERT_TRUE(Ok(tuttiCommShrink(comm, nullptr, 0, rest.address(), nullptr, TUTTI_SHRINK_ABORT)));
        comm.Destroy();
        EXPECT_TRUE(Ok(call(rest)));
      },
      options);
}

}  // namespace
}  // namespace tutti::testing
