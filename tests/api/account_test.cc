// Counters and descriptions of a communicator's work, and memory that peers access directly.
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "testing/forms.h"
#include "testing/ranks.h"
#include "testing/surroundings.h"

namespace tutti::testing {
namespace {

tuttiCounters_t CountersOf(tuttiComm_t comm) {
  tuttiCounters_t counters{};
  counters.size = sizeof counters;
  EXPECT_TRUE(Ok(tuttiCommGetCounters(comm, &counters)));
  return counters;
}

std::uint64_t Total(const uint64_t (&bytes)[TUTTI_COUNTED_TRANSPORTS][TUTTI_COUNTED_ALGORITHMS],
                    tuttiAlgorithm_t algorithm) {
  std::uint64_t total = 0;
  for (const auto& of_transport : bytes) total += of_transport[algorithm];
  return total;
}

TEST(Counters, FollowTheAlgorithmsFormula) {
  // Divisible by ranks, chunks and lines, so every rank has the same share.
  constexpr std::size_t kCount = 3 * 4 * 5 * 1024;
  for (const int ranks : {2, 3, 4, 5}) {
    RunRanks(ranks, [](Rank& self) {
      const auto n = static_cast<std::uint64_t>(self.size());
      tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
      config.algorithm = "ring";
      const auto ring = self.Join(&config);
      std::vector<float> data(kCount, 1), more(kCount * n);
      for (int i = 0; i < 2; ++i) {
        ASSERT_TRUE(Ok(tuttiAllReduce(data.data(), data.data(), kCount, tuttiFloat32, tuttiSum, ring, nullptr)));
      }
      auto counters = CountersOf(ring);
      const std::uint64_t bytes = kCount * sizeof(float);
      EXPECT_EQ(counters.operations, 2u);
      EXPECT_EQ(counters.operationsByAlgorithm[tuttiAlgorithmRing], 2u);
      EXPECT_EQ(Total(counters.bytesSent, tuttiAlgorithmRing), 2 * 2 * (n - 1) * bytes / n);
      EXPECT_EQ(Total(counters.bytesReceived, tuttiAlgorithmRing), 2 * 2 * (n - 1) * bytes / n);
      ASSERT_TRUE(Ok(tuttiAllGather(data.data(), more.data(), kCount, tuttiFloat32, ring, nullptr)));
      const auto after = CountersOf(ring);
      EXPECT_EQ(Total(after.bytesSent, tuttiAlgorithmRing) - Total(counters.bytesSent, tuttiAlgorithmRing),
                (n - 1) * bytes);

      const auto direct = self.Join(nullptr, 1);
      ASSERT_TRUE(Ok(tuttiAlltoAll(more.data(), data.data(), kCount / n / n * n, tuttiInt8, direct, nullptr)));
      counters = CountersOf(direct);
      EXPECT_EQ(Total(counters.bytesSent, tuttiAlgorithmDirect), (n - 1) * (kCount / n / n * n));
      EXPECT_EQ(Total(counters.bytesReceived, tuttiAlgorithmDirect), (n - 1) * (kCount / n / n * n));
    });
  }
}

TEST(Counters, ToldByTransport) {
  if (const auto why = WhyNoReadsOfOtherProcesses(); !why.empty()) GTEST_SKIP() << why;
  const auto count = [](const RunOptions& options, bool windows, tuttiTransport_t wanted) {
    RunRanks(
        2,
        [&](Rank& self) {
          const auto comm = self.Join();
          constexpr std::size_t kBytes = 256 * 1024;
          std::vector<char> plain_send(kBytes), plain_receive(2 * kBytes);
          void *send = plain_send.data(), *receive = plain_receive.data();
          std::array<tuttiWindow_t, 2> registered{};
          if (windows) {
            ASSERT_TRUE(Ok(tuttiMemAlloc(&send, kBytes)));
            ASSERT_TRUE(Ok(tuttiMemAlloc(&receive, 2 * kBytes)));
            ASSERT_TRUE(Ok(tuttiCommWindowRegister(comm, send, kBytes, &registered[0], 0)));
            ASSERT_TRUE(Ok(tuttiCommWindowRegister(comm, receive, 2 * kBytes, &registered[1], 0)));
          }
          ASSERT_TRUE(Ok(tuttiAllGather(send, receive, kBytes, tuttiInt8, comm, nullptr)));
          const auto counters = CountersOf(comm);
          std::uint64_t sent = 0;
          for (const auto bytes : counters.bytesSent[wanted]) sent += bytes;
          EXPECT_EQ(sent, kBytes);
          if (windows) {
            for (auto* window : registered) EXPECT_TRUE(Ok(tuttiCommWindowDeregister(comm, window)));
            EXPECT_TRUE(Ok(tuttiMemFree(send)));
            EXPECT_TRUE(Ok(tuttiMemFree(receive)));
          }
        },
        options);
  };
  count({.environment = {{"TUTTI_ZERO_COPY", "0"}}}, false, tuttiTransportShm);
  count({.environment = {{"TUTTI_CMA", "off"}}}, false, tuttiTransportShm);
  count({.environment = {{"TUTTI_CMA", "1"}}}, false, tuttiTransportCma);
  count({}, true, tuttiTransportDirect);
  count({.threads = true}, false, tuttiTransportDirect);
  count({.environment = {{"TUTTI_VIRTUAL_HOSTS", "2"}}}, false, tuttiTransportTcp);
}

TEST(Counters, OlderStructsGetWhatTheyHaveRoomFor) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    ASSERT_TRUE(Ok(tuttiBarrier(comm, nullptr)));
    tuttiCounters_t counters;
    std::memset(&counters, 0x77, sizeof counters);
    counters.size = offsetof(tuttiCounters_t, operationsByAlgorithm);
    ASSERT_TRUE(Ok(tuttiCommGetCounters(comm, &counters)));
    EXPECT_EQ(counters.operations, 1u);
    EXPECT_EQ(counters.operationsByAlgorithm[0], 0x7777777777777777u);
  });
}

// algorithms/builders/records.cc lists the forms of each algorithm. Without a form, the selector's choice runs.
TEST(Description, ForcedAlgorithmsRunWhereTheyHaveAForm) {
  using Form = std::pair<What, std::function<tuttiResult_t(tuttiComm_t, float*, float*)>>;
  const auto f = tuttiFloat32;
  const std::vector<Form> forms = {
      {What::all_reduce, [=](auto c, auto* a, auto* b) { return tuttiAllReduce(a, b, 4, f, tuttiSum, c, nullptr); }},
      {What::reduce_scatter,
       [=](auto c, auto* a, auto* b) { return tuttiReduceScatter(a, b, 4, f, tuttiSum, c, nullptr); }},
      {What::all_gather, [=](auto c, auto* a, auto* b) { return tuttiAllGather(a, b, 4, f, c, nullptr); }},
      {What::alltoall, [=](auto c, auto* a, auto* b) { return tuttiAlltoAll(a, b, 4, f, c, nullptr); }},
      {What::broadcast, [=](auto c, auto* a, auto* b) { return tuttiBroadcast(a, b, 4, f, 0, c, nullptr); }},
      {What::reduce, [=](auto c, auto* a, auto* b) { return tuttiReduce(a, b, 4, f, tuttiSum, 0, c, nullptr); }},
      {What::gather, [=](auto c, auto* a, auto* b) { return tuttiGather(a, b, 4, f, 0, c, nullptr); }},
      {What::scatter, [=](auto c, auto* a, auto* b) { return tuttiScatter(a, b, 4, f, 0, c, nullptr); }}};
  const auto& known = FormsOfAlgorithms();
  ASSERT_EQ(known.size(), static_cast<std::size_t>(tuttiNumAlgorithms) - 1) << "a new algorithm: say what it has";
  RunRanks(3, [&](Rank& self) {
    const auto parent = self.Join();
    for (const auto& [algorithm, collectives] : known) {
      tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
      config.algorithm = algorithm.c_str();
      Comm comm;
      ASSERT_TRUE(Ok(tuttiCommSplit(parent, 0, self.rank(), comm.address(), &config)));
      std::array<float, 12> a{}, b{};
      for (const auto& [what, call] : forms) {
        ASSERT_TRUE(Ok(call(comm, a.data(), b.data()))) << NameOf(what);
        auto used = tuttiAlgorithmNone;
        ASSERT_TRUE(Ok(tuttiCommGetLastAlgorithm(comm, &used)));
        std::array<char, 300> text{};
        ASSERT_TRUE(Ok(tuttiCommDescribeLastOperation(comm, text.data(), text.size())));
        if (collectives.contains(what)) {
          EXPECT_EQ(tuttiAlgorithmName(used), algorithm) << text.data();
        } else {
          EXPECT_NE(tuttiAlgorithmName(used), algorithm) << text.data();
          EXPECT_NE(std::string(text.data()).find(" is forced, but "), std::string::npos) << text.data();
        }
      }
    }
  });
}

TEST(Description, NamesTheOperationAndItsWay) {
  RunRanks(3, [](Rank& self) {
    const auto comm = self.Join();
    std::array<char, 300> text{};
    ASSERT_TRUE(Ok(tuttiCommDescribeLastOperation(comm, text.data(), text.size())));
    EXPECT_STREQ(text.data(), "") << "nothing was done yet";
    std::vector<float> data(1000, 1);
    ASSERT_TRUE(Ok(tuttiAllReduce(data.data(), data.data(), 1000, tuttiFloat32, tuttiSum, comm, nullptr)));
    ASSERT_TRUE(Ok(tuttiCommDescribeLastOperation(comm, text.data(), text.size())));
    const std::string whole = text.data();
    self.Note(whole);
    tuttiAlgorithm_t algorithm = tuttiAlgorithmNone;
    ASSERT_TRUE(Ok(tuttiCommGetLastAlgorithm(comm, &algorithm)));
    for (const std::string word : {"all_reduce", "1000", "3 ranks", tuttiAlgorithmName(algorithm)}) {
      EXPECT_NE(whole.find(word), std::string::npos) << word << " is not in: " << whole;
    }
    text.fill('#');
    ASSERT_TRUE(Ok(tuttiCommDescribeLastOperation(comm, text.data(), 5)));
    EXPECT_EQ(std::string(text.data(), 6), whole.substr(0, 4) + '\0' + '#');
  });
}

TEST(Memory, IsAlignedAndZeroed) {
  RunAlone([] {
    for (const std::size_t size : {std::size_t{1}, std::size_t{4097}, std::size_t{5} << 20}) {
      void* memory = nullptr;
      ASSERT_TRUE(Ok(tuttiMemAlloc(&memory, size)));
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 4096, 0u);
      const auto* bytes = static_cast<const char*>(memory);
      for (std::size_t i = 0; i < size; i += 997) ASSERT_EQ(bytes[i], 0);
      ASSERT_TRUE(Ok(tuttiMemFree(memory)));
      EXPECT_TRUE(Fails(tuttiMemFree(memory), tuttiInvalidArgument, {"ptr"}));
    }
  });
}

}  // namespace
}  // namespace tutti::testing
