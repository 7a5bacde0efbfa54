// NCCL_DEBUG and what it writes, as scripts read it.
#include "interop/nccl/environment/debug_log.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "interop/nccl/tests/testing.h"

namespace tutti::nccl::testing {
namespace {

TEST(NcclDebug, WordsAreRead) {
  EXPECT_EQ(ParseLevel("INFO"), Level::info);
  EXPECT_EQ(ParseLevel("version"), Level::version);
  EXPECT_EQ(ParseLevel("loud"), Level::none);
  EXPECT_EQ(ParseSubsystems("INIT,coll"), subsystem::kInit | subsystem::kColl);
  EXPECT_EQ(ParseSubsystems("^NET"), ~subsystem::kNet);
  EXPECT_EQ(ParseSubsystems("ALL"), subsystem::kAll);
  EXPECT_EQ(ParseSubsystems("INIT,unknown"), subsystem::kInit);
  EXPECT_EQ(ExpandFileName("/tmp/%h.%p.%%.%x%", "host", 7), "/tmp/host.7.%.%x%");
}

struct Logged {
  std::string text;
  int lines(const std::string& expression) const {
    const std::regex regex(expression);
    int count = 0;
    std::istringstream all(text);
    for (std::string line; std::getline(all, line);) count += std::regex_search(line, regex) ? 1 : 0;
    return count;
  }
};

// What two ranks log while they run the body.
Logged Log(std::vector<std::pair<std::string, std::string>> environment, const std::function<void(Rank&)>& body) {
  std::string folder = (std::filesystem::temp_directory_path() / "nccl_debug_XXXXXX").string();
  EXPECT_NE(mkdtemp(folder.data()), nullptr);
  environment.emplace_back("NCCL_DEBUG_FILE", folder + "/log.%h.%p");
  RunRanks(2, body, {.environment = std::move(environment)});
  Logged logged;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path());
    std::ostringstream content;
    content << file.rdbuf();
    logged.text += content.str();
  }
  std::filesystem::remove_all(folder);
  return logged;
}

void AddTwice(Rank& self) {
  const Comm comm = Join(self);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Sum(comm, 1), 2);
}

TEST(NcclDebug, InfoHasNcclsLines) {
  const auto logged = Log({{"NCCL_DEBUG", "INFO"}, {"NCCL_BUFFSIZE", "1"}}, AddTwice);
  const std::string prefix = "^[^ :]+:[0-9]+:[0-9]+ \\[[0-9]+\\] NCCL INFO ";
  const std::string comm = "comm 0x[0-9a-f]+ rank [01] nranks 2 cudaDev 0 busId 0 commId 0x[0-9a-f]+ ";
  EXPECT_EQ(logged.lines(prefix + "\\[Rank [01]\\] ncclCommInitRank " + comm + "- Init START$"), 2) << logged.text;
  EXPECT_EQ(logged.lines(prefix + "ncclCommInitRank " + comm + "- Init COMPLETE$"), 2) << logged.text;
  EXPECT_EQ(logged.lines(prefix + "[0-9]+ coll channels, 0 collnet channels, .* p2p channels per peer$"), 2);
  EXPECT_EQ(logged.lines(prefix + "comm 0x[0-9a-f]+ rank [01] nranks 2 cudaDev 0 busId 0 - Destroy COMPLETE$"), 2);
  EXPECT_EQ(logged.lines("^NCCL version 2\\.[0-9]+\\.[0-9]+ \\(Tutti "), 2) << logged.text;
  EXPECT_EQ(logged.lines(prefix + "NCCL_BUFFSIZE set by environment to 1, which has no meaning here"), 2);
  EXPECT_EQ(logged.lines("AllReduce"), 0) << "INIT, ENV and BOOTSTRAP are the usual subsystems";
}

TEST(NcclDebug, SubsystemsTellOfCallsAndPlans) {
  const auto logged = Log(
      {{"NCCL_DEBUG", "INFO"}, {"NCCL_DEBUG_SUBSYS", "COLL,TUNING"}, {"NCCL_ALGO", "ring"}, {"NCCL_PROTO", "LL128"}},
      AddTwice);
  EXPECT_EQ(logged.lines("NCCL INFO AllReduce: opCount [01] sendbuff 0x[0-9a-f]+ recvbuff 0x[0-9a-f]+ count 1 datatype "
                         "8 op 0 root 0 comm 0x[0-9a-f]+ \\[nranks=2\\] stream 0x0$"),
            4)
      << logged.text;
  EXPECT_EQ(
      logged.lines("NCCL INFO AllReduce: 8 Bytes -> Algo RING proto LL128 channel\\{Lo\\.\\.Hi\\}=\\{0\\.\\.0\\}$"), 2)
      << logged.text;
  EXPECT_EQ(logged.lines("Init COMPLETE"), 0);
}

TEST(NcclDebug, WarningsHaveTheSentenceOfTheError) {
  const auto fail = [](Rank& self) {
    const Comm comm = Join(self);
    EXPECT_NE(ncclAllReduce(nullptr, nullptr, 1, ncclFloat, ncclSum, comm, nullptr), ncclSuccess);
  };
  const auto logged = Log({{"NCCL_DEBUG", "WARN"}}, fail);
  EXPECT_EQ(logged.lines("NCCL WARN .*sendbuff"), 2) << logged.text;
  EXPECT_EQ(logged.lines("NCCL INFO"), 0) << logged.text;
}

TEST(NcclDebug, IsSilentByDefaultAndForNonsense) {
  EXPECT_EQ(Log({}, AddTwice).text, "");
  EXPECT_EQ(Log({{"NCCL_DEBUG", "LOUD"}}, AddTwice).text, "");
}

// Where the log cannot go to its file, the reason, on stdout.
std::string Complaint(const std::string& file) {
  setenv("NCCL_DEBUG", "WARN", 1);
  setenv("NCCL_DEBUG_FILE", file.c_str(), 1);
  ::testing::internal::CaptureStdout();
  DebugLog::Get().Reset();
  DebugLog::Get().Warn("a warning");
  const auto text = ::testing::internal::GetCapturedStdout();
  unsetenv("NCCL_DEBUG");
  unsetenv("NCCL_DEBUG_FILE");
  DebugLog::Get().Reset();
  return text;
}

TEST(NcclDebug, FollowsNoLinkAndWaitsForNoReader) {
  namespace fs = std::filesystem;
  std::string folder = (fs::temp_directory_path() / "nccl_links_XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  std::ofstream(folder + "/target") << "kept";
  fs::create_symlink(folder + "/target", folder + "/link");
  ASSERT_EQ(mkfifo((folder + "/pipe").c_str(), 0600), 0);
  const auto link = Complaint(folder + "/link");
  EXPECT_NE(link.find("NCCL WARN NCCL_DEBUG_FILE: "), std::string::npos) << link;
  EXPECT_NE(link.find("symbolic link"), std::string::npos) << link;
  EXPECT_NE(link.find("NCCL WARN a warning"), std::string::npos) << link;
  EXPECT_NE(Complaint(folder + "/pipe").find("cannot write"), std::string::npos);
  EXPECT_EQ(Complaint("/dev/null"), "");
  std::ifstream target(folder + "/target");
  std::string text;
  std::getline(target, text);
  EXPECT_EQ(text, "kept");
  fs::remove_all(folder);
}

TEST(NcclDebug, TerminalsObeyNothingInIt) {
  const auto logged =
      Log({{"NCCL_DEBUG", "INFO"}, {"NCCL_BUFFSIZE", "\x1b]0;owned\x07"}, {"NCCL_IB_TIMEOUT", "\x1b[2J"}}, AddTwice);
  EXPECT_EQ(logged.text.find('\x1b'), std::string::npos);
  EXPECT_EQ(logged.lines("NCCL_BUFFSIZE set by environment to .x1b\\]0;owned.x07,"), 2) << logged.text;
  EXPECT_EQ(logged.lines("Invalid value .x1b.2J for NCCL_IB_TIMEOUT"), 2) << logged.text;
}

TEST(NcclDebug, IsReadAgainAfterAReset) {
  const auto reset = [](Rank& self) {
    const Comm comm = Join(self);
    setenv("NCCL_DEBUG", "INFO", 1);
    setenv("NCCL_DEBUG_SUBSYS", "COLL", 1);
    EXPECT_EQ(Sum(comm, 1), 2);
    ncclResetDebugInit();
    EXPECT_EQ(Sum(comm, 1), 2);
  };
  const auto logged = Log({{"NCCL_DEBUG", "VERSION"}}, reset);
  EXPECT_EQ(logged.lines("NCCL INFO AllReduce: opCount 0 "), 2) << logged.text;
  EXPECT_EQ(logged.lines("AllReduce"), 2) << logged.text;
}

}  // namespace
}  // namespace tutti::nccl::testing
