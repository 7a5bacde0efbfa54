// The library's descriptors: none of them is a standard one, and none is left when the call that needed it has failed.
#include "testing/descriptors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>

#include "testing/ranks.h"
#include "testing/surroundings.h"

namespace tutti::testing {
namespace {

class Descriptors : public ::testing::TestWithParam<const char*> {
 protected:
  static RunOptions options() { return {.environment = {{"TUTTI_VIRTUAL_HOSTS", GetParam()}}}; }
};
INSTANTIATE_TEST_SUITE_P(Hosts, Descriptors, ::testing::Values("1", "2"),
                         [](const auto& which) { return std::string(which.param); });

// A daemon closes them. What anyone then writes to standard error must not reach a peer.
TEST_P(Descriptors, AreNeverStandardOnes) {
  RunRanks(
      2,
      [](Rank& self) {
        std::array<int, 3> kept{};
        for (int fd = 0; fd < 3; ++fd) {
          kept[static_cast<std::size_t>(fd)] = fcntl(fd, F_DUPFD_CLOEXEC, 100);
          close(fd);
        }
        auto comm = self.Join();
        std::vector<float> data(100'000, 1);
        EXPECT_TRUE(Ok(AllReduce(comm, data)));
        for (int fd = 0; fd < 3; ++fd) {
          EXPECT_EQ(fcntl(fd, F_GETFD), -1) << fd;
          EXPECT_EQ(write(fd, "a line of a log", 15), -1) << fd;
        }
        Comm child;
        EXPECT_TRUE(Ok(tuttiCommSplit(comm, 0, self.rank(), child.address(), nullptr)));
        EXPECT_TRUE(Ok(AllReduce(child, data)));
        for (int fd = 0; fd < 3; ++fd) EXPECT_EQ(fcntl(fd, F_GETFD), -1) << fd;
        self.Meet();
        for (int fd = 0; fd < 3; ++fd) dup2(kept[static_cast<std::size_t>(fd)], fd);
      },
      options());
}

// Rank 1 cannot make its part. Both get the same code at once, and nothing of it stays.
TEST_P(Descriptors, OfAFailedSplitAreClosed) {
  if (const auto why = WhyEmulated("limits on descriptors"); !why.empty()) GTEST_SKIP() << why;
  RunRanks(
      2,
      [](Rank& self) {
        auto comm = self.Join();
        std::vector<float> data(1000, 1);
        ASSERT_TRUE(Ok(AllReduce(comm, data)));
        const auto descriptors = OpenDescriptors(), threads = Threads();
        rlimit limit{};
        getrlimit(RLIMIT_NOFILE, &limit);
        if (self.rank() == 1) {
          const int lowest = dup(0);
          close(lowest);
          const rlimit none{static_cast<rlim_t>(lowest), limit.rlim_max};
          ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
        }
        Comm child;
        EXPECT_TRUE(Fails(tuttiCommSplit(comm, 0, self.rank(), child.address(), nullptr), tuttiSystemError,
                          {self.rank() == 0 ? "rank 1 " : "Too many open files"}));
        setrlimit(RLIMIT_NOFILE, &limit);
        // Threads end a moment later.
        for (int i = 0; i < 500 && (OpenDescriptors() > descriptors || Threads() > threads); ++i) usleep(10'000);
        EXPECT_EQ(OpenDescriptors(), descriptors);
        EXPECT_EQ(Threads(), threads);
        EXPECT_TRUE(Ok(AllReduce(comm, data)));
        self.Meet();
      },
      options());
}

// Communicators of ranks that know each other: all of them, all in another order, and those without the first.
class Further {
 public:
  void Split(Rank& self, tuttiComm_t comm, int kind) {
    Comm child;
    const int color = kind == 2 && self.rank() == 0 ? 1 : 0, key = kind == 1 ? -self.rank() : self.rank();
    ASSERT_TRUE(Ok(tuttiCommSplit(comm, color, key, child.address(), nullptr)));
    std::vector<float> data(100, 1);
    EXPECT_TRUE(Ok(AllReduce(child, data)));
    communicators_.push_back(std::move(child));
  }

 private:
  std::vector<Comm> communicators_;
};

// Threads end, and connections close, a moment after the call that needed them.
void ExpectAtMost(std::ptrdiff_t descriptors, std::ptrdiff_t threads) {
  for (int i = 0; i < 500 && (OpenDescriptors() > descriptors || Threads() > threads); ++i) usleep(10'000);
  EXPECT_LE(OpenDescriptors(), descriptors) << fmt::format("{}", fmt::join(DescribeDescriptors(), "\n"));
  EXPECT_LE(Threads(), threads);
}

TEST(FurtherCommunicators, CostNeitherDescriptorsNorThreads) {
  for (const bool threads : {false, true}) {
    RunRanks(3,
             [](Rank& self) {
               auto comm = self.Join();
               Further further;
               for (int kind = 0; kind < 3; ++kind) further.Split(self, comm, kind);
               self.Meet();
               const auto descriptors = OpenDescriptors(), threads = Threads();
               self.Meet();
               for (int i = 0; i < Rounds(30); ++i) further.Split(self, comm, i % 3);
               self.Meet();
               ExpectAtMost(descriptors, threads);
               self.Meet();
             },
             {.threads = threads});
  }
}

TEST(FurtherCommunicatorsSlow, OfAThousandFitIntoTheUsualDescriptors) {
  if (const auto why = WhyEmulated("limits on descriptors"); !why.empty()) GTEST_SKIP() << why;
  RunRanks(3, [](Rank& self) {
    const rlimit usual{1024, 1024};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);
    auto comm = self.Join();
    Further further;
    for (int i = 0; i < 1000; ++i) further.Split(self, comm, i % 3);
    self.Meet();
  });
}

// A meeting that has taken place leaves nothing, either.
TEST_P(Descriptors, OfASplitGoWithTheNewCommunicator) {
  RunRanks(
      2,
      [](Rank& self) {
        auto comm = self.Join();
        std::vector<float> data(1000, 1);
        ASSERT_TRUE(Ok(AllReduce(comm, data)));
        const auto descriptors = OpenDescriptors();
        for (int i = 0; i < 3; ++i) {
          Comm child;
          ASSERT_TRUE(Ok(tuttiCommSplit(comm, 0, self.rank(), child.address(), nullptr)));
          self.Meet();
        }
        for (int i = 0; i < 1000 && OpenDescriptors() > descriptors; ++i) usleep(10'000);
        EXPECT_LE(OpenDescriptors(), descriptors);
        self.Meet();
      },
      options());
}

}  // namespace
}  // namespace tutti::testing
