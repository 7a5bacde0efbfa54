// Every collective by its NCCL name, on host memory, with ranks as threads and as processes; types, operators, streams.
#include <array>
#include <numeric>

#include "interop/nccl/tests/testing.h"

extern "C" int NcclFromC99(void);

namespace tutti::nccl::testing {
namespace {

TEST(NcclCollectives, FromC99) {
  RunAlone([] { EXPECT_EQ(NcclFromC99(), 0); });
}

constexpr std::size_t kCount = 1000;
// A communicator without a device ignores the stream.
const auto kSomeStream = reinterpret_cast<cudaStream_t>(0x10);

// A rank's input: small whole numbers that differ by rank and place.
template <typename Element>
std::vector<Element> Input(int rank, std::size_t count) {
  std::vector<Element> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<Element>((static_cast<std::size_t>(rank) + 2 * i) % 5 + 1);
  return values;
}

template <typename Element>
Element Reduced(ncclRedOp_t op, int nranks, std::size_t i) {
  Element result = Input<Element>(0, i + 1)[i];
  for (int rank = 1; rank < nranks; ++rank) {
    const auto value = Input<Element>(rank, i + 1)[i];
    if (op == ncclSum) result = static_cast<Element>(result + value);
    if (op == ncclProd) result = static_cast<Element>(result * value);
    if (op == ncclMax) result = std::max(result, value);
    if (op == ncclMin) result = std::min(result, value);
  }
  return result;
}

template <typename Element>
std::vector<Element> AllReduced(ncclRedOp_t op, int nranks, std::size_t count) {
  std::vector<Element> values(count);
  // Inputs repeat every five elements.
  for (std::size_t i = 0; i < count; ++i) values[i] = i < 5 ? Reduced<Element>(op, nranks, i) : values[i - 5];
  return values;
}

template <typename Element>
void CheckReductions(Rank& self, ncclComm_t comm, ncclDataType_t type) {
  const auto count = kCount * static_cast<std::size_t>(self.size());
  const auto input = Input<Element>(self.rank(), count);
  for (const auto op : {ncclSum, ncclProd, ncclMax, ncclMin}) {
    const auto wanted = AllReduced<Element>(op, self.size(), count);
    std::vector<Element> output(count);
    EXPECT_TRUE(Ok(ncclAllReduce(input.data(), output.data(), count, type, op, comm, kSomeStream)));
    EXPECT_EQ(output, wanted) << "all-reduce, type " << type << ", op " << op;

    const int root = self.size() - 1;
    std::vector<Element> at_root(count);
    EXPECT_TRUE(Ok(ncclReduce(input.data(), at_root.data(), count, type, op, root, comm, nullptr)));
    if (self.rank() == root) {
      EXPECT_EQ(at_root, wanted) << "reduce, type " << type << ", op " << op;
    }

    std::vector<Element> mine(kCount);
    EXPECT_TRUE(Ok(ncclReduceScatter(input.data(), mine.data(), kCount, type, op, comm, nullptr)));
    const auto begin = wanted.begin() + static_cast<std::ptrdiff_t>(kCount) * self.rank();
    EXPECT_EQ(mine, std::vector<Element>(begin, begin + kCount)) << "reduce-scatter, type " << type << ", op " << op;
  }
}

void CheckMoves(Rank& self, ncclComm_t comm) {
  const auto nranks = static_cast<std::size_t>(self.size());
  const auto block = [](int rank) { return Input<std::int32_t>(rank, kCount); };
  std::vector<std::int32_t> all;
  for (int rank = 0; rank < self.size(); ++rank) {
    const auto its = block(rank);
    all.insert(all.end(), its.begin(), its.end());
  }
  const auto own = block(self.rank());
  const int root = self.size() - 1;

  std::vector<std::int32_t> gathered(kCount * nranks);
  EXPECT_TRUE(Ok(ncclAllGather(own.data(), gathered.data(), kCount, ncclInt32, comm, nullptr)));
  EXPECT_EQ(gathered, all);

  std::vector<std::int32_t> at_root(kCount * nranks);
  EXPECT_TRUE(Ok(ncclGather(own.data(), at_root.data(), kCount, ncclInt32, root, comm, nullptr)));
  if (self.rank() == root) {
    EXPECT_EQ(at_root, all);
  }

  std::vector<std::int32_t> mine(kCount);
  EXPECT_TRUE(Ok(ncclScatter(all.data(), mine.data(), kCount, ncclInt32, root, comm, nullptr)));
  EXPECT_EQ(mine, own);

  std::vector<std::int32_t> exchanged(kCount * nranks), wanted;
  EXPECT_TRUE(Ok(ncclAlltoAll(all.data(), exchanged.data(), kCount, ncclInt32, comm, nullptr)));
  for (std::size_t rank = 0; rank < nranks; ++rank) wanted.insert(wanted.end(), own.begin(), own.end());
  EXPECT_EQ(exchanged, wanted);

  std::vector<std::int32_t> from_root(kCount);
  EXPECT_TRUE(Ok(ncclBroadcast(own.data(), from_root.data(), kCount, ncclInt32, root, comm, nullptr)));
  EXPECT_EQ(from_root, block(root));
  auto in_place = own;
  EXPECT_TRUE(Ok(ncclBcast(in_place.data(), kCount, ncclInt32, root, comm, nullptr)));
  EXPECT_EQ(in_place, block(root));

  const int next = (self.rank() + 1) % self.size(), last = (self.rank() + root) % self.size();
  std::vector<std::int32_t> received(kCount);
  EXPECT_TRUE(Ok(ncclGroupStart()));
  EXPECT_TRUE(Ok(ncclSend(own.data(), kCount, ncclInt32, next, comm, kSomeStream)));
  EXPECT_TRUE(Ok(ncclRecv(received.data(), kCount, ncclInt32, last, comm, kSomeStream)));
  EXPECT_TRUE(Ok(ncclGroupEnd()));
  EXPECT_EQ(received, block(last));
}

void CheckEverything(Rank& self) {
  const auto comm = Join(self);
  CheckReductions<std::int8_t>(self, comm, ncclInt8);
  CheckReductions<std::uint32_t>(self, comm, ncclUint32);
  CheckReductions<std::int64_t>(self, comm, ncclInt64);
  CheckReductions<float>(self, comm, ncclFloat32);
  CheckReductions<double>(self, comm, ncclFloat64);
  CheckMoves(self, comm);
}

TEST(NcclCollectives, AreRightBetweenThreads) {
  for (const int ranks : {1, 2, 3, 4}) RunRanks(ranks, CheckEverything, {.threads = true});
}

TEST(NcclCollectives, AreRightBetweenProcesses) { RunRanks(4, CheckEverything); }

TEST(NcclCollectives, KnowEveryType) {
  RunRanks(2, [](Rank& self) {
    const auto comm = Join(self);
    for (int type = 0; type < ncclNumTypes; ++type) {
      alignas(8) std::array<char, 64> zeros{}, output{};
      output.fill(1);
      EXPECT_TRUE(
          Ok(ncclAllReduce(zeros.data(), output.data(), 8, static_cast<ncclDataType_t>(type), ncclSum, comm, nullptr)))
          << type;
      EXPECT_EQ(output[7], 0) << type;  // each type writes at least eight bytes
    }
  });
}

// One thread serves several communicators, which works only in a group.
TEST(NcclCollectives, RunInGroupsOfOneThread) {
  RunAlone([] {
    constexpr int kRanks = 4;
    std::array<ncclComm_t, kRanks> comms{};
    ASSERT_TRUE(Ok(ncclCommInitAll(comms.data(), kRanks, nullptr)));
    std::array<double, kRanks> values{1, 2, 3, 4};
    EXPECT_TRUE(Ok(ncclGroupStart()));
    for (int i = 0; i < kRanks; ++i) {
      EXPECT_TRUE(Ok(ncclAllReduce(&values[i], &values[i], 1, ncclDouble, ncclAvg, comms[i], nullptr)));
    }
    EXPECT_TRUE(Ok(ncclGroupEnd()));
    for (const auto value : values) EXPECT_EQ(value, 2.5);
    for (const auto comm : comms) EXPECT_TRUE(Ok(ncclCommDestroy(comm)));
  });
}

TEST(NcclCollectives, ScaleByPreMulSum) {
  RunRanks(3, [](Rank& self) {
    const auto comm = Join(self);
    float scalar = static_cast<float>(self.rank() + 1), value = 10;
    ncclRedOp_t op{};
    ASSERT_TRUE(Ok(ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat, ncclScalarHostImmediate, comm)));
    EXPECT_GE(op, ncclNumOps);
    EXPECT_TRUE(Ok(ncclAllReduce(&value, &value, 1, ncclFloat, op, comm, nullptr)));
    EXPECT_EQ(value, 60);
    EXPECT_TRUE(Ok(ncclRedOpDestroy(op, comm)));
    EXPECT_TRUE(Fails(ncclAllReduce(&value, &value, 1, ncclFloat, op, comm, nullptr), ncclInvalidArgument, "op"));
  });
}

// Messages name the program's calls, not those that the library makes for it.
TEST(NcclCollectives, OnesThatDifferAreNamedWithTheProgramsLines) {
  RunRanks(2, [](Rank& self) {
    const auto comm = Join(self);
    std::array<float, 2> values{};
    const auto result =
        self.rank() == 0
            ? ncclAllReduce(values.data(), values.data(), 1, ncclFloat, ncclSum, comm, nullptr)
            : ncclAllReduceConfig(values.data(), values.data(), 2, ncclFloat, ncclSum, comm, nullptr, nullptr);
    EXPECT_EQ(result, ncclInvalidUsage);
    const std::string message = ncclGetLastError(comm);
    EXPECT_NE(message.find(" at "), message.rfind(" at ")) << message;
    EXPECT_EQ(message.find("libnccl"), std::string::npos) << message;
    self.Meet();
  });
}

}  // namespace
}  // namespace tutti::nccl::testing
