// Files that the library writes at a user's request: it follows no link, and writes no terminal control sequences.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "testing/from_outside.h"

namespace tutti::testing {
namespace {

namespace fs = std::filesystem;

// A file that must not change, and an attacker's link to it at the path where the library writes.
class LaidLink {
 public:
  LaidLink() {
    std::string name = ::testing::TempDir() + "writtenXXXXXX";
    folder_ = mkdtemp(name.data());
    std::ofstream(folder_ / "precious") << "precious";
    fs::create_symlink(folder_ / "precious", folder_ / "link");
  }
  ~LaidLink() { fs::remove_all(folder_); }
  LaidLink(const LaidLink&) = delete;
  LaidLink& operator=(const LaidLink&) = delete;

  std::string link() const { return folder_ / "link"; }
  std::string beside(const std::string& name) const { return folder_ / name; }
  bool IsUntouched() const { return TextOf(folder_ / "precious") == "precious" && fs::is_symlink(folder_ / "link"); }

 private:
  fs::path folder_;
};

void AllReduceOnce(tuttiComm_t comm) {
  float data = 1;
  ASSERT_EQ(tuttiAllReduce(&data, &data, 1, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess);
}

TEST(WrittenFiles, TraceFollowsNoLink) {
  const LaidLink laid;
  RunOptions options;
  options.environment = {{"TUTTI_TRACE", laid.link()}};
  RunRanks(
      1, [](Rank& self) { AllReduceOnce(self.Join()); }, options);
  EXPECT_TRUE(laid.IsUntouched());
}

TEST(WrittenFiles, TraceIsJson) {
  const LaidLink laid;
  RunOptions options;
  options.environment = {{"TUTTI_TRACE", laid.beside("trace_%r.json")}};
  RunRanks(
      2, [](Rank& self) { AllReduceOnce(self.Join()); }, options);
  const auto trace = nlohmann::json::parse(TextOf(laid.beside("trace_1.json")), nullptr, false);
  ASSERT_TRUE(trace.is_object());
  EXPECT_EQ(trace.at("traceEvents").size(), 3u) << trace.dump(1);
  EXPECT_EQ(trace.at("traceEvents")[2].at("name"), "all_reduce");
}

TEST(WrittenFiles, DumpFollowsNoLink) {
  const LaidLink laid;
  RunRanks(1, [&](Rank& self) {
    const auto comm = self.Join();
    EXPECT_TRUE(Fails(tuttiCommDump(comm, laid.link().c_str()), tuttiInvalidUsage, {"link", "it is a symbolic link"}));
    EXPECT_TRUE(Ok(tuttiCommDump(comm, laid.beside("dump.json").c_str())));
  });
  EXPECT_TRUE(laid.IsUntouched());
}

TEST(WrittenFiles, DumpOfAFailureFollowsNoLink) {
  const LaidLink laid;
  RunOptions options;
  options.environment = {{"TUTTI_DUMP", laid.link()}};
  RunRanks(
      2,
      [](Rank& self) {
        auto comm = self.Join();
        std::vector<float> data(100'000, 1);
        self.Meet();
        if (self.rank() == 1) {
          EXPECT_TRUE(Ok(tuttiCommAbort(comm.Release())));
          return;
        }
        EXPECT_TRUE(Fails(tuttiAllReduce(data.data(), data.data(), data.size(), tuttiFloat32, tuttiSum, comm, nullptr),
                          tuttiRemoteError, {"rank 1 (", "aborted"}));
      },
      options);
  EXPECT_TRUE(laid.IsUntouched());
}

TEST(WrittenFiles, TopologyFollowsNoLink) {
  const LaidLink laid;
  ExpectRefusal(1, {{"TUTTI_TOPO_DUMP_FILE", laid.link()}}, {"TUTTI_TOPO_DUMP_FILE", "it is a symbolic link"});
  EXPECT_TRUE(laid.IsUntouched());
}

// Programs choose names, perhaps from untrusted input.
TEST(WrittenFiles, NamesThatCannotBePrintedAreEscaped) {
  const LaidLink laid;
  const std::string hostile = "\xff\x1b[2J\n" + std::string(1 << 20, 'x');
  RunRanks(1, [&](Rank& self) {
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.name = hostile.c_str();
    tuttiComm_t comm = nullptr;
    ASSERT_TRUE(Ok(tuttiCommInitRankConfig(&comm, 1, self.IdOf(), 0, &config)));
    EXPECT_TRUE(Ok(tuttiCommDump(comm, laid.beside("dump.json").c_str())));
    EXPECT_TRUE(Ok(tuttiCommDestroy(comm)));
  });
  const auto text = TextOf(laid.beside("dump.json"));
  EXPECT_LT(text.size(), 2000u);
  const auto dump = nlohmann::json::parse(text, nullptr, false);
  ASSERT_TRUE(dump.is_object()) << text;
  EXPECT_TRUE(dump.at("name").get<std::string>().starts_with("\\xff\\x1b[2J\\x0ax")) << dump.at("name");
}

TEST(WrittenFiles, ArgumentsThatCannotBePrintedAreEscapedInErrors) {
  RunRanks(1, [&](Rank& self) {
    const auto comm = self.Join();
    EXPECT_TRUE(Fails(tuttiCommDump(comm, "/nowhere/\x1b[2J\xff"), tuttiSystemError, {"/nowhere/\\x1b[2J\\xff"}));
  });
}

}  // namespace
}  // namespace tutti::testing
