// Grouped, queued and concurrent calls.
#include <unistd.h>

#include <array>
#include <chrono>
#include <numeric>
#include <thread>

#include "testing/ranks.h"

namespace tutti::testing {
namespace {

constexpr auto kF = tuttiFloat32;

class Stream {
 public:
  Stream() { EXPECT_TRUE(Ok(tuttiStreamCreate(&handle_))); }
  ~Stream() { EXPECT_TRUE(Ok(tuttiStreamDestroy(handle_))); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator tuttiStream_t() const { return handle_; }  // NOLINT: stands for the handle in every call

 private:
  tuttiStream_t handle_ = nullptr;
};

TEST(Groups, AllRanksOfOneProcessFromOneThread) {
  RunAlone([] {
    constexpr std::size_t kRanks = 4;
    std::array<tuttiComm_t, kRanks> comms{};
    ASSERT_TRUE(Ok(tuttiCommInitAll(comms.data(), kRanks, nullptr)));
    for (const std::size_t count : {1, 1000, 100'000}) {
      std::vector<std::vector<float>> data;
      for (std::size_t r = 0; r < kRanks; ++r) data.emplace_back(count, static_cast<float>(r + 1));
      ASSERT_TRUE(Ok(tuttiGroupStart()));
      for (std::size_t r = 0; r < kRanks; ++r) {
        ASSERT_TRUE(Ok(tuttiAllReduce(data[r].data(), data[r].data(), count, kF, tuttiSum, comms[r], nullptr)));
      }
      ASSERT_TRUE(Ok(tuttiGroupEnd()));
      for (const auto& each : data) EXPECT_EQ(each, std::vector<float>(count, 10));
    }
    for (auto* comm : comms) EXPECT_TRUE(Ok(tuttiCommDestroy(comm)));
  });
}

TEST(Groups, SplitOfAllRanksOfOneThread) {
  RunAlone([] {
    std::array<tuttiComm_t, 4> comms{}, parts{};
    ASSERT_TRUE(Ok(tuttiCommInitAll(comms.data(), 4, nullptr)));
    ASSERT_TRUE(Ok(tuttiGroupStart()));
    for (std::size_t r = 0; r < 4; ++r) {
      ASSERT_TRUE(Ok(tuttiCommSplit(comms[r], static_cast<int>(r / 2), 0, &parts[r], nullptr)));
    }
    ASSERT_TRUE(Ok(tuttiGroupEnd()));
    for (std::size_t r = 0; r < 4; ++r) {
      int rank = -1;
      EXPECT_TRUE(Ok(tuttiCommUserRank(parts[r], &rank)));
      EXPECT_EQ(rank, static_cast<int>(r % 2));
      EXPECT_TRUE(Ok(tuttiCommDestroy(parts[r])));
      EXPECT_TRUE(Ok(tuttiCommDestroy(comms[r])));
    }
  });
}

TEST(Groups, NestAndRunAtTheOutermostEnd) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    float a = 1, b = 2;
    ASSERT_TRUE(Ok(tuttiGroupStart()));
    ASSERT_TRUE(Ok(tuttiGroupStart()));
    ASSERT_TRUE(Ok(tuttiAllReduce(&a, &a, 1, kF, tuttiSum, comm, nullptr)));
    ASSERT_TRUE(Ok(tuttiGroupEnd()));
    EXPECT_EQ(a, 1) << "ran too early";
    ASSERT_TRUE(Ok(tuttiAllReduce(&b, &b, 1, kF, tuttiSum, comm, nullptr)));
    ASSERT_TRUE(Ok(tuttiGroupEnd()));
    EXPECT_EQ(a, 2);
    EXPECT_EQ(b, 4);
    ASSERT_TRUE(Ok(tuttiGroupStart()));
    ASSERT_TRUE(Ok(tuttiGroupEnd())) << "an empty group";
  });
}

// Every rank sends to every rank, itself included, in an order that would deadlock if messages waited for each other.
TEST(Groups, MessagesInAnyOrder) {
  for (const bool threads : {false, true}) {
    for (const std::size_t count : {1, 100, 50'000}) {
      RunRanks(4,
               [&](Rank& self) {
                 const auto comm = self.Join();
                 const auto n = static_cast<std::size_t>(self.size());
                 std::vector<std::vector<float>> sent, got(n, std::vector<float>(count));
                 for (std::size_t r = 0; r < n; ++r)
                   sent.emplace_back(count, static_cast<float>(10 * self.rank()) + static_cast<float>(r));
                 for (int round = 0; round < 3; ++round) {
                   ASSERT_TRUE(Ok(tuttiGroupStart()));
                   for (std::size_t r = 0; r < n; ++r)
                     ASSERT_TRUE(Ok(tuttiSend(sent[r].data(), count, kF, static_cast<int>(r), comm, nullptr)));
                   for (std::size_t r = n; r-- > 0;)
                     ASSERT_TRUE(Ok(tuttiRecv(got[r].data(), count, kF, static_cast<int>(r), comm, nullptr)));
                   ASSERT_TRUE(Ok(tuttiGroupEnd()));
                 }
                 for (std::size_t r = 0; r < n; ++r)
                   EXPECT_EQ(got[r],
                             std::vector<float>(count, static_cast<float>(10 * r) + static_cast<float>(self.rank())));
               },
               {.threads = threads});
    }
  }
}

TEST(Groups, ManyMessagesOfOnePairKeepTheirOrder) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    constexpr std::size_t kMessages = 200;
    std::vector<int> numbers(kMessages);
    if (self.rank() == 0) std::iota(numbers.begin(), numbers.end(), 0);
    ASSERT_TRUE(Ok(tuttiGroupStart()));
    for (auto& number : numbers) {
      ASSERT_TRUE(Ok(self.rank() == 0 ? tuttiSend(&number, 1, tuttiInt32, 1, comm, nullptr)
                                      : tuttiRecv(&number, 1, tuttiInt32, 0, comm, nullptr)));
    }
    ASSERT_TRUE(Ok(tuttiGroupEnd()));
    for (std::size_t i = 0; i < kMessages; ++i) EXPECT_EQ(numbers[i], static_cast<int>(i));
  });
}

TEST(Groups, MessagesBesideCollectives) {
  RunRanks(3, [](Rank& self) {
    const auto comm = self.Join();
    float sum = 1, sent = static_cast<float>(self.rank()), got = -1;
    ASSERT_TRUE(Ok(tuttiGroupStart()));
    ASSERT_TRUE(Ok(tuttiSend(&sent, 1, kF, (self.rank() + 1) % 3, comm, nullptr)));
    ASSERT_TRUE(Ok(tuttiAllReduce(&sum, &sum, 1, kF, tuttiSum, comm, nullptr)));
    ASSERT_TRUE(Ok(tuttiRecv(&got, 1, kF, (self.rank() + 2) % 3, comm, nullptr)));
    ASSERT_TRUE(Ok(tuttiGroupEnd()));
    EXPECT_EQ(sum, 3);
    EXPECT_EQ(got, static_cast<float>((self.rank() + 2) % 3));
  });
}

TEST(Groups, AMessageToOneselfNeedsItsReceive) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    float a = 5, b = 0;
    EXPECT_TRUE(Fails(tuttiSend(&a, 1, kF, self.rank(), comm, nullptr), tuttiInvalidUsage, {"group"}));
    ASSERT_TRUE(Ok(tuttiGroupStart()));
    ASSERT_TRUE(Ok(tuttiSend(&a, 1, kF, self.rank(), comm, nullptr)));
    EXPECT_TRUE(Fails(tuttiGroupEnd(), tuttiInvalidUsage, {"itself", "receives 0"}));
    ASSERT_TRUE(Ok(tuttiGroupStart()));
    ASSERT_TRUE(Ok(tuttiRecv(&b, 1, kF, self.rank(), comm, nullptr)));
    ASSERT_TRUE(Ok(tuttiSend(&a, 1, kF, self.rank(), comm, nullptr)));
    ASSERT_TRUE(Ok(tuttiGroupEnd()));
    EXPECT_EQ(b, 5);
  });
}

// Two communicators in opposite orders on the two ranks: a group does not depend on the order.
TEST(Groups, SeveralCommunicatorsCannotBlockEachOther) {
  RunRanks(2, [](Rank& self) {
    const auto first = self.Join(nullptr, 0), second = self.Join(nullptr, 1);
    std::vector<float> a(100'000, 1), b(100'000, 2);
    ASSERT_TRUE(Ok(tuttiGroupStart()));
    for (const bool to_first : {self.rank() == 0, self.rank() != 0}) {
      auto& data = to_first ? a : b;
      ASSERT_TRUE(
          Ok(tuttiAllReduce(data.data(), data.data(), data.size(), kF, tuttiSum, to_first ? first : second, nullptr)));
    }
    ASSERT_TRUE(Ok(tuttiGroupEnd()));
    EXPECT_EQ(a.back(), 2);
    EXPECT_EQ(b.back(), 4);
  });
}

TEST(Streams, RunInOrder) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    const Stream stream;
    std::vector<double> data(1000, 1);
    constexpr int kTimes = 50;
    for (int i = 0; i < kTimes; ++i) {
      ASSERT_TRUE(Ok(tuttiAllReduce(data.data(), data.data(), data.size(), tuttiFloat64, tuttiSum, comm, stream)));
    }
    ASSERT_TRUE(Ok(tuttiStreamSynchronize(stream)));
    EXPECT_EQ(data.back(), static_cast<double>(std::uint64_t{1} << kTimes));
    EXPECT_EQ(tuttiStreamQuery(stream), tuttiSuccess);
  });
}

TEST(Streams, DoNotWaitForOtherRanks) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    const Stream stream;
    float value = 1;
    if (self.rank() == 0) {
      ASSERT_TRUE(Ok(tuttiAllReduce(&value, &value, 1, kF, tuttiSum, comm, stream)));
      EXPECT_EQ(tuttiStreamQuery(stream), tuttiInProgress);
    }
    self.Meet();  // the other rank calls only now
    if (self.rank() == 1) {
      ASSERT_TRUE(Ok(tuttiAllReduce(&value, &value, 1, kF, tuttiSum, comm, stream)));
    }
    ASSERT_TRUE(Ok(tuttiStreamSynchronize(stream)));
    EXPECT_EQ(value, 2);
  });
}

TEST(Streams, TellOfFailuresWhenSynchronised) {
  RunRanks(2, [](Rank& self) {
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.operationTimeoutMs = 100;
    const auto comm = self.Join(&config);
    const Stream stream;
    float value = 1;
    if (self.rank() == 0) {
      ASSERT_TRUE(Ok(tuttiAllReduce(&value, &value, 1, kF, tuttiSum, comm, stream)));
      EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiTimeoutError);
      EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiSuccess) << "told once";
      EXPECT_NE(std::string(tuttiGetLastError(comm)).find("rank 1 "), std::string::npos) << tuttiGetLastError(comm);
    }
    self.Meet();
  });
}

TEST(Streams, AGroupMaySpanSeveral) {
  RunRanks(2, [](Rank& self) {
    const auto first = self.Join(nullptr, 0), second = self.Join(nullptr, 1);
    const Stream one, two;
    float a = 1, b = 2;
    for (int round = 0; round < 20; ++round) {
      ASSERT_TRUE(Ok(tuttiGroupStart()));
      ASSERT_TRUE(Ok(tuttiAllReduce(&a, &a, 1, kF, tuttiMax, first, one)));
      ASSERT_TRUE(Ok(tuttiAllReduce(&b, &b, 1, kF, tuttiMax, second, two)));
      ASSERT_TRUE(Ok(tuttiGroupEnd()));
      ASSERT_TRUE(Ok(tuttiAllReduce(&b, &b, 1, kF, tuttiSum, second, two)));
    }
    ASSERT_TRUE(Ok(tuttiStreamSynchronize(one)));
    ASSERT_TRUE(Ok(tuttiStreamSynchronize(two)));
    EXPECT_EQ(a, 1);
    EXPECT_EQ(b, 2.0F * (1 << 20));
  });
}

// The order of the calls, not of the threads that run them, decides which call of one rank meets which of another.
TEST(Streams, CallsOnOneCommunicatorKeepTheirOrder) {
  constexpr int kRounds = 200;
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    const Stream one, two;
    float sum = 1, most = static_cast<float>(self.rank());
    std::array<std::int32_t, 2> numbers{};
    for (int round = 0; round < kRounds; ++round) {
      if (self.rank() == 0) numbers = {round, -round};
      ASSERT_TRUE(Ok(tuttiAllReduce(&sum, &sum, 1, kF, tuttiAvg, comm, one)));
      ASSERT_TRUE(Ok(tuttiAllReduce(&most, &most, 1, kF, tuttiMax, comm, two)));
      ASSERT_TRUE(Ok(tuttiBroadcast(numbers.data(), numbers.data(), 2, tuttiInt32, 0, comm, nullptr)));
      EXPECT_EQ(numbers[1], -round);
      EXPECT_EQ(most, 1) << "the broadcast did not wait for the calls before it";
    }
    ASSERT_TRUE(Ok(tuttiStreamSynchronize(one)));
    EXPECT_EQ(sum, 1);
  });
}

TEST(Streams, AGroupKeepsTheOrderOfEachCommunicator) {
  RunRanks(2, [](Rank& self) {
    const auto first = self.Join(nullptr, 0), second = self.Join(nullptr, 1);
    const Stream one, two;
    float a = 1, b = 2, c = 3;
    for (int round = 0; round < 50; ++round) {
      ASSERT_TRUE(Ok(tuttiAllReduce(&a, &a, 1, kF, tuttiMax, first, one)));
      ASSERT_TRUE(Ok(tuttiReduce(&b, &b, 1, kF, tuttiMax, 0, second, two)));
      ASSERT_TRUE(Ok(tuttiGroupStart()));  // waits for both
      ASSERT_TRUE(Ok(tuttiBroadcast(&a, &a, 1, kF, 0, first, nullptr)));
      ASSERT_TRUE(Ok(tuttiBroadcast(&b, &b, 1, kF, 0, second, nullptr)));
      ASSERT_TRUE(Ok(tuttiGroupEnd()));
      ASSERT_TRUE(Ok(tuttiGroupStart()));  // on the other streams
      ASSERT_TRUE(Ok(tuttiAllReduce(&c, &c, 1, kF, tuttiMin, first, two)));
      ASSERT_TRUE(Ok(tuttiBarrier(second, one)));
      ASSERT_TRUE(Ok(tuttiGroupEnd()));
    }
    ASSERT_TRUE(Ok(tuttiStreamSynchronize(one)));
    ASSERT_TRUE(Ok(tuttiStreamSynchronize(two)));
    EXPECT_EQ(a + b + c, 6);
  });
}

// The call in this thread waits for one behind which the other communicator's call never comes.
TEST(Streams, AnAbortEndsTheWaitForATurn) {
  RunRanks(2, [](Rank& self) {
    const auto stuck = self.Join(nullptr, 0);
    auto comm = self.Join(nullptr, 1);
    const tuttiComm_t handle = comm;
    const Stream stream;
    if (self.rank() == 0) {
      float a = 1, b = 2, c = 3;
      ASSERT_TRUE(Ok(tuttiAllReduce(&a, &a, 1, kF, tuttiSum, stuck, stream)));
      ASSERT_TRUE(Ok(tuttiAllReduce(&b, &b, 1, kF, tuttiSum, comm, stream)));
      std::thread aborting([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        EXPECT_TRUE(Ok(tuttiCommAbort(comm.Release())));
      });
      EXPECT_EQ(tuttiAllReduce(&c, &c, 1, kF, tuttiSum, handle, nullptr), tuttiInvalidArgument);
      aborting.join();
      EXPECT_TRUE(Ok(tuttiCommRevoke(stuck, TUTTI_REVOKE_DEFAULT)));
      EXPECT_NE(tuttiStreamSynchronize(stream), tuttiSuccess);
    }
    self.Meet();
  });
}

TEST(Streams, FinalizeAndDestroyWaitForWhatIsQueued) {
  RunRanks(2, [](Rank& self) {
    auto comm = self.Join();
    const Stream stream;
    std::vector<float> data(100'000, 1);
    for (int i = 0; i < 5; ++i)
      ASSERT_TRUE(Ok(tuttiAllReduce(data.data(), data.data(), data.size(), kF, tuttiSum, comm, stream)));
    ASSERT_TRUE(Ok(tuttiCommFinalize(comm)));
    EXPECT_EQ(data.back(), 32);
    // Not Query: the stream's thread may not have marked it done yet.
    EXPECT_TRUE(Ok(tuttiStreamSynchronize(stream)));
  });
}

}  // namespace
}  // namespace tutti::testing
