// Tensor collectives on host memory.
#include <fmt/format.h>

#include "testing/surroundings.h"
#include "testing/tensor_forms.h"

namespace tutti::testing {
namespace {

void EveryForm(Rank& self, int trials) {
  const auto comm = self.Join();
  for (int t = 0; t < Rounds(trials); ++t) {
    const auto seed = static_cast<unsigned>(t);
    constexpr std::size_t kMost = 1 << 20;
    const auto trial = MakeTrial(seed, kMost);
    SCOPED_TRACE(fmt::format("trial {} on {} ranks", t, self.size()));
    std::mt19937 random(1000 * seed + static_cast<unsigned>(self.rank()));  // each rank has its own strides
    TensorForms<std::int32_t>(comm, self, {}).Run(trial, random);
    if (::testing::Test::HasFailure()) return;
  }
  self.Meet();
}

class Tensors : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(On, Tensors, ::testing::Range(1, 9),
                         [](const auto& info) { return fmt::format("{}_ranks", info.param); });

TEST_P(Tensors, GoFromPlaceToPlace) {
  RunRanks(GetParam(), [](Rank& self) { EveryForm(self, 12); });
}

TEST_P(Tensors, GoFromPlaceToPlaceAmongThreads) {
  RunRanks(GetParam(), [](Rank& self) { EveryForm(self, 8); }, {.threads = true});
}

TEST_P(Tensors, GoFromPlaceToPlaceBetweenHosts) {
  RunRanks(GetParam(), [](Rank& self) { EveryForm(self, 8); }, {.environment = {{"TUTTI_VIRTUAL_HOSTS", "2"}}});
}

// Algorithms visit the same places in different orders; wires split them into different pieces.
TEST(Tensor, ByEveryAlgorithmAndProtocol) {
  for (const char* algorithms : {"ring", "direct", "all_gather:bruck,all_to_all:bruck", "recursive"}) {
    for (const auto& [variable, value] :
         Grid(std::vector{std::pair{"TUTTI_PROTO", "inline"}, std::pair{"TUTTI_PROTO", "bulk"},
                          std::pair{"TUTTI_CHUNK", "192"}, std::pair{"TUTTI_CMA", "1"}},
              2)) {
      SCOPED_TRACE(fmt::format("TUTTI_ALGO={} {}={}", algorithms, variable, value));
      RunRanks(4, [](Rank& self) { EveryForm(self, 6); },
               {.environment = {{"TUTTI_ALGO", algorithms}, {variable, value}}});
    }
  }
}

constexpr tuttiTensorLayout_t Dense(std::size_t rows, std::size_t columns) {
  return {2, {rows, columns}, {columns, 1}};
}

TEST(Tensor, NamesWhatDoesNotFit) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    std::vector<float> a(1000), b(1000);
    const auto gather = [&](const tuttiTensorLayout_t* send, const tuttiTensorLayout_t* receive, int dim,
                            const std::vector<std::string>& words) {
      EXPECT_TRUE(Fails(tuttiAllGatherTensor(a.data(), send, b.data(), receive, dim, tuttiFloat32, comm, nullptr),
                        tuttiInvalidArgument, words));
    };
    auto part = Dense(4, 6), whole = Dense(4, 12);
    gather(nullptr, &whole, 1, {"sendlayout is NULL"});
    gather(&part, &whole, 2, {"dim is 2", "recvlayout has dimensions 0 to 1"});
    gather(&part, &whole, -1, {"dim is -1"});
    gather(&part, &whole, 0, {"sendlayout has shape [4, 6]", "[4, 12] along dimension 0 on 2 ranks is [2, 12]"});
    const auto odd = Dense(4, 11);
    gather(&part, &odd, 1, {"recvlayout->shape[1] is 11", "2 ranks"});
    auto nine = part;
    nine.ndims = 9;
    gather(&nine, &whole, 1, {"sendlayout->ndims is 9", "1 to 8"});
    auto folded = whole;
    folded.strides[0] = 11;
    gather(&part, &folded, 1, {"recvlayout: elements of shape [4, 12] overlap", "a stride is 11", "12"});
    auto huge = whole;
    huge.strides[0] = SIZE_MAX / 2;
    gather(&part, &huge, 1, {"recvlayout", "does not fit in memory"});
    EXPECT_TRUE(Fails(tuttiAllGatherTensor(nullptr, &part, b.data(), &whole, 1, tuttiFloat32, comm, nullptr),
                      tuttiInvalidArgument, {"sendbuff is NULL"}));
    EXPECT_TRUE(Fails(tuttiAllGatherTensor(&b[1], &part, b.data(), &whole, 1, tuttiFloat32, comm, nullptr),
                      tuttiInvalidArgument, {"overlap"}));
    EXPECT_TRUE(
        Fails(tuttiReduceScatterTensor(a.data(), &whole, b.data(), &part, 0, tuttiFloat32, tuttiSum, comm, nullptr),
              tuttiInvalidArgument, {"recvlayout has shape [4, 6]", "[2, 12]"}));
    EXPECT_TRUE(Fails(tuttiAlltoAllTensor(a.data(), &part, 1, b.data(), &whole, 0, tuttiFloat32, comm, nullptr),
                      tuttiInvalidArgument, {"the blocks differ", "[4, 3]", "[2, 12]"}));
    // The communicator stays usable; an empty tensor is a no-op.
    const auto none = Dense(0, 6), nothing = Dense(0, 12);
    EXPECT_TRUE(Ok(tuttiAllGatherTensor(nullptr, &none, nullptr, &nothing, 1, tuttiFloat32, comm, nullptr)));
    self.Meet();
  });
}

// Two views of one tensor: their spans overlap, but none of their elements.
TEST(Tensor, MayLieBetweenTheElementsOfTheOther) {
  constexpr std::size_t kRows = 5, kRow = 21, kPart = 6;
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    std::vector<float> x(kRows * kRow, -1);
    const tuttiTensorLayout_t part{2, {kRows, kPart}, {kRow, 1}}, whole{2, {kRows, 2 * kPart}, {kRow, 1}};
    const auto value = [](int rank, std::size_t row, std::size_t column) {
      return static_cast<float>(1000 * rank) + static_cast<float>(10 * row + column);
    };
    for (std::size_t i = 0; i < kRows; ++i) {
      for (std::size_t j = 0; j < kPart; ++j) x[i * kRow + j] = value(self.rank(), i, j);
    }
    const auto gather = [&](std::size_t column) {
      return tuttiAllGatherTensor(x.data(), &part, &x[column], &whole, 1, tuttiFloat32, comm, nullptr);
    };
    EXPECT_TRUE(Fails(gather(kPart - 1), tuttiInvalidArgument, {"overlap"}));
    EXPECT_TRUE(Fails(gather(kRow - 2 * kPart + 1), tuttiInvalidArgument, {"overlap"}));  // the next row's begin
    ASSERT_TRUE(Ok(gather(kPart)));
    for (std::size_t i = 0; i < kRows; ++i) {
      for (std::size_t j = 0; j < kRow; ++j) {
        const bool sent = j < kPart, received = !sent && j < 3 * kPart;
        const float right = sent       ? value(self.rank(), i, j)
                            : received ? value(static_cast<int>(j / kPart) - 1, i, j % kPart)
                                       : -1;
        ASSERT_EQ(x[i * kRow + j], right) << i << ", " << j;
      }
    }
    // And back: the sum of both ranks' parts, beside what is summed.
    ASSERT_TRUE(
        Ok(tuttiReduceScatterTensor(&x[kPart], &whole, x.data(), &part, 1, tuttiFloat32, tuttiSum, comm, nullptr)));
    for (std::size_t i = 0; i < kRows; ++i) {
      for (std::size_t j = 0; j < kPart; ++j) ASSERT_EQ(x[i * kRow + j], 2 * value(self.rank(), i, j));
    }
  });
}

TEST(Tensor, OfAnotherShapeOnAnotherRankIsToldOnBoth) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    std::vector<float> a(48), b(48);
    const auto part = self.rank() == 0 ? Dense(4, 6) : Dense(6, 4),
               whole = self.rank() == 0 ? Dense(4, 12) : Dense(6, 8);
    EXPECT_TRUE(Fails(tuttiAllGatherTensor(a.data(), &part, b.data(), &whole, 1, tuttiFloat32, comm, nullptr),
                      tuttiInvalidUsage, {"all_gather_tensor(count=24, float32)", "on tensors of another shape"}));
    self.Meet();
  });
}

// bf16 and averages also take the reducing path; queued calls keep their own copy of the layouts.
TEST(Tensor, AveragesHalvesOnAStream) {
  RunRanks(3, [](Rank& self) {
    const auto comm = self.Join();
    constexpr std::size_t kRows = 5, kColumns = 9;
    std::vector<std::uint16_t> send(kRows * kColumns * 2, 0), receive(kRows * kColumns / 3, 0);
    constexpr std::uint16_t kOne = 0x3f80, kTwo = 0x4000, kThree = 0x4040;
    const std::uint16_t mine = self.rank() == 0 ? kOne : self.rank() == 1 ? kTwo : kThree;
    std::fill(send.begin(), send.end(), mine);
    tuttiStream_t stream = nullptr;
    ASSERT_TRUE(Ok(tuttiStreamCreate(&stream)));
    {
      const tuttiTensorLayout_t whole{2, {kRows, kColumns}, {2 * kColumns, 2}}, part = Dense(kRows, kColumns / 3);
      ASSERT_TRUE(Ok(tuttiReduceScatterTensor(send.data(), &whole, receive.data(), &part, 1, tuttiBfloat16, tuttiAvg,
                                              comm, stream)));
    }
    ASSERT_TRUE(Ok(tuttiStreamSynchronize(stream)));
    EXPECT_TRUE(std::all_of(receive.begin(), receive.end(), [](auto value) { return value == kTwo; }));
    ASSERT_TRUE(Ok(tuttiStreamDestroy(stream)));
    self.Meet();
  });
}

}  // namespace
}  // namespace tutti::testing
