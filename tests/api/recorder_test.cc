// The flight recorder's files.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "testing/ranks.h"

namespace tutti::testing {
namespace {

// Rank 1 aborts while the others wait for it.
void FailTogether(Rank& self, bool in_group) {
  Comm comm = self.Join();
  std::vector<float> data(100'000, 1), more(10, 1);
  ASSERT_TRUE(Ok(AllReduce(comm, data)));
  self.Meet();  // every rank has left that operation
  if (self.rank() == 1) {
    EXPECT_TRUE(Ok(tuttiCommAbort(comm.Release())));
    return self.Meet();
  }
  if (in_group) {
    ASSERT_TRUE(Ok(tuttiGroupStart()));
    AllReduce(comm, data);
    AllReduce(comm, more);
    EXPECT_TRUE(Fails(tuttiGroupEnd(), tuttiRemoteError, {"rank 1 (", "aborted"}));
  } else {
    EXPECT_TRUE(Fails(AllReduce(comm, data), tuttiRemoteError, {"rank 1 (", "aborted"}));
  }
  self.Meet();
}

class Folder {
 public:
  Folder() {
    std::string name = ::testing::TempDir() + "recorderXXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

TEST(Recorder, WritesWhatWasGoingOnWhenACommunicatorFails) {
  const Folder folder;
  RunOptions options;
  options.environment = {{"TUTTI_DUMP", (folder.path() / "dump_%r.json").string()}};
  RunRanks(
      3, [](Rank& self) { FailTogether(self, false); }, options);
  for (const int rank : {0, 2}) {
    std::ifstream file(folder.path() / fmt::format("dump_{}.json", rank));
    const auto dump = nlohmann::json::parse(file, nullptr, false);
    ASSERT_FALSE(dump.is_discarded()) << rank;
    EXPECT_EQ(dump.at("rank"), rank);
    const auto& operations = dump.at("operations");
    ASSERT_EQ(operations.size(), 2u) << dump.dump(1);
    EXPECT_EQ(operations[0].at("done"), true);
    EXPECT_EQ(operations[1].at("done"), false);
    EXPECT_EQ(operations[1].at("bytes"), 400'000);
  }
}

// If a failure's dump cannot be written, the failure is reported unchanged, whichever thread finds it.
TEST(Recorder, AFileThatCannotBeWrittenIsNoSecondFailure) {
  for (const char* threads : {"1", "2"}) {
    for (const bool in_group : {false, true}) {
      SCOPED_TRACE(fmt::format("{} threads{}", threads, in_group ? ", in a group" : ""));
      RunOptions options;
      options.environment = {{"TUTTI_DUMP", "/nowhere/dump_%r.json"}, {"TUTTI_THREADS", threads}};
      RunRanks(
          3, [in_group](Rank& self) { FailTogether(self, in_group); }, options);
    }
  }
}

TEST(Recorder, IsReadOnRequest) {
  const Folder folder;
  RunRanks(2, [&](Rank& self) {
    const auto comm = self.Join();
    std::vector<float> data(10, 1);
    ASSERT_TRUE(Ok(AllReduce(comm, data)));
    EXPECT_TRUE(Ok(tuttiCommDump(comm, (folder.path() / "asked_%r.json").c_str())));
    EXPECT_TRUE(Fails(tuttiCommDump(comm, "/nowhere/dump.json"), tuttiSystemError, {"/nowhere/dump.json"}));
    ASSERT_TRUE(Ok(AllReduce(comm, data)));
    std::ifstream file(folder.path() / fmt::format("asked_{}.json", self.rank()));
    EXPECT_EQ(nlohmann::json::parse(file).at("operations").size(), 1u);
  });
}

}  // namespace
}  // namespace tutti::testing
