#include "testing/from_outside.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace tutti::testing {

namespace {

std::string FreshPath() {
  static int files = 0;
  return ::testing::TempDir() + fmt::format("tutti_{}_{}.txt", ::getpid(), ++files);
}

}  // namespace

File::File(const std::string& text) : path_(FreshPath()) { std::ofstream(path_) << text; }

File::~File() { std::filesystem::remove(path_); }

std::string TextOf(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string LastOperation(tuttiComm_t comm) {
  std::array<char, 400> text{};
  EXPECT_EQ(tuttiCommDescribeLastOperation(comm, text.data(), text.size()), tuttiSuccess);
  return text.data();
}

void ExpectRefusal(int ranks, const Environment& environment, const std::vector<std::string>& words) {
  RunOptions options;
  options.environment = environment;
  RunRanks(
      ranks,
      [&](Rank& self) {
        tuttiComm_t comm = nullptr;
        EXPECT_TRUE(
            Fails(tuttiCommInitRank(&comm, self.size(), self.IdOf(), self.rank()), tuttiInvalidArgument, words));
      },
      options);
}

}  // namespace tutti::testing
