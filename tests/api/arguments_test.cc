// Arguments that are wrong on their own: the call fails at once with tuttiInvalidArgument and a message that names the
// argument. It sends nothing, so the communicator stays usable and no other rank waits.
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "testing/elements.h"
#include "testing/ranks.h"

namespace tutti::testing {
namespace {

constexpr int kRanks = 2;
constexpr std::size_t kNegative = static_cast<std::size_t>(-1);
constexpr auto kF = tuttiFloat32;

struct Memory {
  alignas(64) std::array<float, 64> a{}, b{};
  std::array<std::size_t, kRanks> counts = {4, 4}, places = {0, 4}, overlapping = {0, 2}, huge = {4, kNegative};

  float* misaligned() { return reinterpret_cast<float*>(reinterpret_cast<char*>(a.data()) + 1); }
};

struct Refusal {
  const char* name;
  std::function<tuttiResult_t(tuttiComm_t, Memory&)> call;
  std::vector<std::string> words;
};

const std::vector<Refusal>& Refusals() {
  static const std::vector<Refusal> all = {
      {"all_reduce_null_send",
       [](auto c, auto& m) { return tuttiAllReduce(nullptr, m.b.data(), 4, kF, tuttiSum, c, nullptr); },
       {"sendbuff"}},
      {"all_reduce_null_recv",
       [](auto c, auto& m) { return tuttiAllReduce(m.a.data(), nullptr, 4, kF, tuttiSum, c, nullptr); },
       {"recvbuff"}},
      {"all_reduce_misaligned_send",
       [](auto c, auto& m) { return tuttiAllReduce(m.misaligned(), m.b.data(), 4, kF, tuttiSum, c, nullptr); },
       {"sendbuff", "aligned"}},
      {"all_reduce_misaligned_recv",
       [](auto c, auto& m) { return tuttiAllReduce(m.b.data(), m.misaligned(), 4, kF, tuttiSum, c, nullptr); },
       {"recvbuff", "aligned"}},
      {"all_reduce_overlap",
       [](auto c, auto& m) { return tuttiAllReduce(m.a.data(), m.a.data() + 1, 4, kF, tuttiSum, c, nullptr); },
       {"overlap"}},
      {"all_reduce_negative",
       [](auto c, auto& m) { return tuttiAllReduce(m.a.data(), m.b.data(), kNegative, kF, tuttiSum, c, nullptr); },
       {"count", "negative"}},
      {"all_reduce_huge",
       [](auto c, auto& m) { return tuttiAllReduce(m.a.data(), m.b.data(), kNegative / 8, kF, tuttiSum, c, nullptr); },
       {"count"}},
      {"all_reduce_type",
       [](auto c, auto& m) {
         return tuttiAllReduce(m.a.data(), m.b.data(), 4, Odd<tuttiDataType_t>(tuttiNumTypes), tuttiSum, c, nullptr);
       },
       {"datatype", std::to_string(tuttiNumTypes)}},
      {"all_reduce_negative_type",
       [](auto c, auto& m) {
         return tuttiAllReduce(m.a.data(), m.b.data(), 4, Odd<tuttiDataType_t>(-1), tuttiSum, c, nullptr);
       },
       {"datatype", "-1"}},
      {"all_reduce_op",
       [](auto c, auto& m) { return tuttiAllReduce(m.a.data(), m.b.data(), 4, kF, Odd<tuttiRedOp_t>(5), c, nullptr); },
       {"op", "5"}},
      {"all_reduce_negative_op",
       [](auto c, auto& m) { return tuttiAllReduce(m.a.data(), m.b.data(), 4, kF, Odd<tuttiRedOp_t>(-3), c, nullptr); },
       {"op", "-3"}},
      {"all_reduce_far_op",
       [](auto c, auto& m) {
         return tuttiAllReduce(m.a.data(), m.b.data(), 4, kF, Odd<tuttiRedOp_t>(0x7ffffffe), c, nullptr);
       },
       {"op"}},
      {"reduce_root",
       [](auto c, auto& m) { return tuttiReduce(m.a.data(), m.b.data(), 4, kF, tuttiSum, 2, c, nullptr); },
       {"root", "2", "0 to 1"}},
      {"reduce_negative_root",
       [](auto c, auto& m) { return tuttiReduce(m.a.data(), m.b.data(), 4, kF, tuttiSum, -1, c, nullptr); },
       {"root", "-1"}},
      {"reduce_type",
       [](auto c, auto& m) {
         return tuttiReduce(m.a.data(), m.b.data(), 4, Odd<tuttiDataType_t>(99), tuttiSum, 0, c, nullptr);
       },
       {"datatype", "99"}},
      {"reduce_op",
       [](auto c, auto& m) { return tuttiReduce(m.a.data(), m.b.data(), 4, kF, Odd<tuttiRedOp_t>(7), 0, c, nullptr); },
       {"op", "7"}},
      {"reduce_null",
       [](auto c, auto& m) { return tuttiReduce(nullptr, m.b.data(), 4, kF, tuttiSum, 0, c, nullptr); },
       {"sendbuff"}},
      {"broadcast_root",
       [](auto c, auto& m) { return tuttiBroadcast(m.a.data(), m.b.data(), 4, kF, 2, c, nullptr); },
       {"root", "2"}},
      {"broadcast_null",
       [](auto c, auto& m) { return tuttiBroadcast(m.a.data(), nullptr, 4, kF, 0, c, nullptr); },
       {"recvbuff"}},
      {"broadcast_negative",
       [](auto c, auto& m) { return tuttiBroadcast(m.a.data(), m.b.data(), kNegative, kF, 0, c, nullptr); },
       {"count", "negative"}},
      {"bcast_null", [](auto c, auto&) { return tuttiBcast(nullptr, 4, kF, 0, c, nullptr); }, {"buff"}},
      {"bcast_type",
       [](auto c, auto& m) { return tuttiBcast(m.a.data(), 4, Odd<tuttiDataType_t>(tuttiNumTypes), 0, c, nullptr); },
       {"datatype"}},
      {"reduce_scatter_null",
       [](auto c, auto& m) { return tuttiReduceScatter(m.a.data(), nullptr, 4, kF, tuttiSum, c, nullptr); },
       {"recvbuff"}},
      {"reduce_scatter_overlap",
       [](auto c, auto& m) { return tuttiReduceScatter(m.a.data(), m.a.data() + 1, 4, kF, tuttiSum, c, nullptr); },
       {"overlap"}},
      {"reduce_scatter_overflow",
       [](auto c, auto& m) {
         return tuttiReduceScatter(m.a.data(), m.b.data(), kNegative / 12, kF, tuttiSum, c, nullptr);
       },
       {"recvcount"}},
      {"all_gather_null",
       [](auto c, auto& m) { return tuttiAllGather(nullptr, m.b.data(), 4, kF, c, nullptr); },
       {"sendbuff"}},
      {"all_gather_overlap",
       [](auto c, auto& m) { return tuttiAllGather(m.a.data() + 1, m.a.data(), 4, kF, c, nullptr); },
       {"overlap"}},
      {"all_gather_negative",
       [](auto c, auto& m) { return tuttiAllGather(m.a.data(), m.b.data(), kNegative, kF, c, nullptr); },
       {"sendcount", "negative"}},
      {"alltoall_overlap",
       [](auto c, auto& m) { return tuttiAlltoAll(m.a.data(), m.a.data() + 4, 4, kF, c, nullptr); },
       {"overlap"}},
      {"alltoall_misaligned",
       [](auto c, auto& m) { return tuttiAlltoAll(m.misaligned(), m.b.data(), 4, kF, c, nullptr); },
       {"sendbuff", "aligned"}},
      {"gather_root",
       [](auto c, auto& m) { return tuttiGather(m.a.data(), m.b.data(), 4, kF, 9, c, nullptr); },
       {"root", "9"}},
      {"gather_null",
       [](auto c, auto& m) { return tuttiGather(nullptr, m.b.data(), 4, kF, 0, c, nullptr); },
       {"sendbuff"}},
      {"scatter_root",
       [](auto c, auto& m) { return tuttiScatter(m.a.data(), m.b.data(), 4, kF, -5, c, nullptr); },
       {"root", "-5"}},
      {"scatter_null",
       [](auto c, auto& m) { return tuttiScatter(m.a.data(), nullptr, 4, kF, 0, c, nullptr); },
       {"recvbuff"}},
      {"all_gather_v_null_counts",
       [](auto c, auto& m) {
         return tuttiAllGatherV(m.a.data(), 4, m.b.data(), nullptr, m.places.data(), kF, c, nullptr);
       },
       {"recvcounts"}},
      {"all_gather_v_null_places",
       [](auto c, auto& m) {
         return tuttiAllGatherV(m.a.data(), 4, m.b.data(), m.counts.data(), nullptr, kF, c, nullptr);
       },
       {"recvdispls"}},
      {"all_gather_v_own_count",
       [](auto c, auto& m) {
         return tuttiAllGatherV(m.a.data(), 5, m.b.data(), m.counts.data(), m.places.data(), kF, c, nullptr);
       },
       {"sendcount", "recvcounts"}},
      {"all_gather_v_blocks_overlap",
       [](auto c, auto& m) {
         return tuttiAllGatherV(m.a.data(), 4, m.b.data(), m.counts.data(), m.overlapping.data(), kF, c, nullptr);
       },
       {"recvcounts", "overlap", "0 and 1"}},
      {"all_gather_v_huge_places",
       [](auto c, auto& m) {
         return tuttiAllGatherV(m.a.data(), 4, m.b.data(), m.counts.data(), m.huge.data(), kF, c, nullptr);
       },
       {"recvdispls"}},
      {"reduce_scatter_v_null_counts",
       [](auto c, auto& m) { return tuttiReduceScatterV(m.a.data(), m.b.data(), nullptr, kF, tuttiSum, c, nullptr); },
       {"recvcounts"}},
      {"reduce_scatter_v_negative",
       [](auto c, auto& m) {
         return tuttiReduceScatterV(m.a.data(), m.b.data(), m.huge.data(), kF, tuttiSum, c, nullptr);
       },
       {"recvcounts"}},
      {"alltoall_v_null_sendcounts",
       [](auto c, auto& m) {
         return tuttiAlltoAllV(m.a.data(), nullptr, m.places.data(), m.b.data(), m.counts.data(), m.places.data(), kF,
                               c, nullptr);
       },
       {"sendcounts"}},
      {"alltoall_v_null_recvdispls",
       [](auto c, auto& m) {
         return tuttiAlltoAllV(m.a.data(), m.counts.data(), m.places.data(), m.b.data(), m.counts.data(), nullptr, kF,
                               c, nullptr);
       },
       {"recvdispls"}},
      {"alltoall_v_in_place",
       [](auto c, auto& m) {
         return tuttiAlltoAllV(m.a.data(), m.counts.data(), m.places.data(), m.a.data(), m.counts.data(),
                               m.places.data(), kF, c, nullptr);
       },
       {"overlap"}},
      {"alltoall_v_blocks_overlap",
       [](auto c, auto& m) {
         return tuttiAlltoAllV(m.a.data(), m.counts.data(), m.places.data(), m.b.data(), m.counts.data(),
                               m.overlapping.data(), kF, c, nullptr);
       },
       {"recvcounts", "overlap"}},
      {"send_peer", [](auto c, auto& m) { return tuttiSend(m.a.data(), 4, kF, 2, c, nullptr); }, {"peer", "2"}},
      {"send_null", [](auto c, auto&) { return tuttiSend(nullptr, 4, kF, 0, c, nullptr); }, {"sendbuff"}},
      {"send_negative",
       [](auto c, auto& m) { return tuttiSend(m.a.data(), kNegative, kF, 0, c, nullptr); },
       {"count", "negative"}},
      {"recv_peer", [](auto c, auto& m) { return tuttiRecv(m.a.data(), 4, kF, -1, c, nullptr); }, {"peer", "-1"}},
      {"recv_misaligned",
       [](auto c, auto& m) { return tuttiRecv(m.misaligned(), 4, kF, 0, c, nullptr); },
       {"recvbuff", "aligned"}},
      {"premulsum_null_op",
       [](auto c, auto& m) { return tuttiRedOpCreatePreMulSum(nullptr, m.a.data(), kF, tuttiScalarHostImmediate, c); },
       {"op"}},
      {"premulsum_null_scalar",
       [](auto c, auto&) {
         tuttiRedOp_t op;
         return tuttiRedOpCreatePreMulSum(&op, nullptr, kF, tuttiScalarHostImmediate, c);
       },
       {"scalar"}},
      {"premulsum_type",
       [](auto c, auto& m) {
         tuttiRedOp_t op;
         return tuttiRedOpCreatePreMulSum(&op, m.a.data(), Odd<tuttiDataType_t>(tuttiNumTypes),
                                          tuttiScalarHostImmediate, c);
       },
       {"datatype"}},
      {"premulsum_residence",
       [](auto c, auto& m) {
         tuttiRedOp_t op;
         return tuttiRedOpCreatePreMulSum(&op, m.a.data(), kF, Odd<tuttiScalarResidence_t>(2), c);
       },
       {"residence"}},
      {"redop_destroy_builtin", [](auto c, auto&) { return tuttiRedOpDestroy(tuttiSum, c); }, {"op"}},
      {"redop_destroy_unknown", [](auto c, auto&) { return tuttiRedOpDestroy(Odd<tuttiRedOp_t>(1000), c); }, {"op"}},
      {"count_null", [](auto c, auto&) { return tuttiCommCount(c, nullptr); }, {"count"}},
      {"user_rank_null", [](auto c, auto&) { return tuttiCommUserRank(c, nullptr); }, {"rank"}},
      {"async_error_null", [](auto c, auto&) { return tuttiCommGetAsyncError(c, nullptr); }, {"asyncError"}},
      {"counters_null", [](auto c, auto&) { return tuttiCommGetCounters(c, nullptr); }, {"counters"}},
      {"counters_size",
       [](auto c, auto&) {
         tuttiCounters_t n{};
         return tuttiCommGetCounters(c, &n);
       },
       {"size"}},
      {"describe_null", [](auto c, auto&) { return tuttiCommDescribeLastOperation(c, nullptr, 10); }, {"text"}},
      {"describe_size",
       [](auto c, auto&) {
         char text;
         return tuttiCommDescribeLastOperation(c, &text, 0);
       },
       {"size"}},
      {"last_algorithm_null", [](auto c, auto&) { return tuttiCommGetLastAlgorithm(c, nullptr); }, {"algorithm"}},
      {"split_null", [](auto c, auto&) { return tuttiCommSplit(c, 0, 0, nullptr, nullptr); }, {"newcomm"}},
      {"split_color",
       [](auto c, auto&) {
         tuttiComm_t part;
         return tuttiCommSplit(c, -2, 0, &part, nullptr);
       },
       {"color", "-2"}},
      {"register_null",
       [](auto c, auto&) {
         void* handle;
         return tuttiCommRegister(c, nullptr, 4, &handle);
       },
       {"buff"}},
      {"register_null_handle",
       [](auto c, auto& m) { return tuttiCommRegister(c, m.a.data(), 4, nullptr); },
       {"handle"}},
      {"register_size",
       [](auto c, auto& m) {
         void* handle;
         return tuttiCommRegister(c, m.a.data(), 0, &handle);
       },
       {"size"}},
      {"window_null",
       [](auto c, auto&) {
         tuttiWindow_t w;
         return tuttiCommWindowRegister(c, nullptr, 4, &w, 0);
       },
       {"buff"}},
      {"window_flags",
       [](auto c, auto& m) {
         tuttiWindow_t w;
         return tuttiCommWindowRegister(c, m.a.data(), 4, &w, 3);
       },
       {"winFlags", "3"}},
      {"window_null_win",
       [](auto c, auto& m) { return tuttiCommWindowRegister(c, m.a.data(), 4, nullptr, 0); },
       {"win"}},
      {"window_deregister_unknown",
       [](auto c, auto&) { return tuttiCommWindowDeregister(c, reinterpret_cast<tuttiWindow_t>(8)); },
       {"win"}},
  };
  return all;
}

TEST(Arguments, WrongOnesAreRefusedAndNothingElseHappens) {
  RunRanks(kRanks, [](Rank& self) {
    auto comm = self.Join();
    Memory memory;
    for (const auto& refusal : Refusals()) {
      // Only one rank errs: the other must not notice.
      if (self.rank() == 0) {
        EXPECT_TRUE(Fails(refusal.call(comm, memory), tuttiInvalidArgument, refusal.words)) << refusal.name;
        std::string kept = tuttiGetLastError(comm);
        EXPECT_NE(kept, "") << refusal.name;
      }
      float one = 1, sum = 0;
      ASSERT_TRUE(Ok(tuttiAllReduce(&one, &sum, 1, kF, tuttiSum, comm, nullptr))) << "after " << refusal.name;
      ASSERT_EQ(sum, kRanks) << "after " << refusal.name;
    }
  });
}

TEST(Arguments, MemoryThatIsNoneOfOursIsRefusedAsAWindowOnEveryRank) {
  RunRanks(kRanks, [](Rank& self) {
    auto comm = self.Join();
    void* memory = nullptr;
    ASSERT_TRUE(Ok(tuttiMemAlloc(&memory, 4096)));
    std::array<char, 64> foreign{};
    tuttiWindow_t window = nullptr;
    const auto result = self.rank() == 1 ? tuttiCommWindowRegister(comm, foreign.data(), 64, &window, 0)
                                         : tuttiCommWindowRegister(comm, memory, 64, &window, 0);
    EXPECT_TRUE(Fails(result, tuttiInvalidArgument, {"buff", "tuttiMemAlloc", "rank 1"}));
    EXPECT_TRUE(Ok(tuttiBarrier(comm, nullptr)));
    EXPECT_TRUE(Ok(tuttiMemFree(memory)));
  });
}

// Buffers whose spans overlap, but not their blocks; and one block that reaches into another.
TEST(Arguments, BlocksOfVFormsMayLieBetweenOthers) {
  RunRanks(kRanks, [](Rank& self) {
    const auto comm = self.Join();
    const int rank = self.rank();
    const std::array<std::size_t, kRanks> counts = {2, 1}, ones = {1, 1}, receives = {0, 4}, sends = {0, 4};
    for (const std::size_t gap : {2U, 3U, 5U}) {
      std::array<float, 8> memory{};
      memory.fill(-1);
      const auto own = static_cast<std::size_t>(rank);
      for (std::size_t i = 0; i < counts[own]; ++i)
        memory[gap + i] = static_cast<float>(10 * rank) + static_cast<float>(i);
      const bool apart = gap + counts[own] <= 4 || gap == 5;
      const auto result = tuttiAllGatherV(memory.data() + gap, counts[own], memory.data(), counts.data(),
                                          receives.data(), kF, comm, nullptr);
      if (!apart) {
        EXPECT_TRUE(Fails(result, tuttiInvalidArgument, {"overlap"}));
        std::array<float, 8> other{};  // the other rank's call is right, so it waits for this one
        ASSERT_TRUE(Ok(tuttiAllGatherV(memory.data() + gap, counts[own], other.data(), counts.data(), receives.data(),
                                       kF, comm, nullptr)));
        continue;
      }
      ASSERT_TRUE(Ok(result));
      EXPECT_EQ((std::array{memory[0], memory[1], memory[4]}), (std::array{0.F, 1.F, 10.F})) << gap;
    }
    std::array<float, 8> memory{};
    for (std::size_t peer = 0; peer < kRanks; ++peer)
      memory[4 * peer] = static_cast<float>(10 * rank) + static_cast<float>(peer);
    ASSERT_TRUE(Ok(tuttiAlltoAllV(memory.data(), ones.data(), sends.data(), memory.data() + 1, ones.data(),
                                  sends.data(), kF, comm, nullptr)));
    EXPECT_EQ((std::array{memory[1], memory[5]}),
              (std::array{static_cast<float>(rank), static_cast<float>(10 + rank)}));
    EXPECT_TRUE(Fails(tuttiAlltoAllV(memory.data(), counts.data(), sends.data(), memory.data() + 1, counts.data(),
                                     sends.data(), kF, comm, nullptr),
                      tuttiInvalidArgument, {"overlap"}));
  });
}

}  // namespace
}  // namespace tutti::testing
