// The forms for tensors: random shapes, dimensions and strides against loops over indices.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>

#include "tests/ranks.h"

namespace tutti::testing {
namespace {

using Index = std::vector<std::size_t>;

std::size_t CountOf(const Index& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
}

void ForEachIndex(const Index& shape, const std::function<void(const Index&)>& function) {
  Index index(shape.size());
  for (std::size_t left = CountOf(shape); left > 0; --left) {
    function(index);
    for (std::size_t d = shape.size(); d-- > 0 && ++index[d] == shape[d];) index[d] = 0;
  }
}

constexpr std::int32_t kUntouched = -77;

// A tensor in memory of its own: dimensions in any order, with gaps.
struct Tensor {
  Tensor(Index shape, std::mt19937& random) : layout{}, shape(std::move(shape)) {
    layout.ndims = static_cast<int>(this->shape.size());
    Index order(this->shape.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (random() % 3 == 0) std::shuffle(order.begin(), order.end(), random);
    std::size_t stride = random() % 8 == 0 ? 2 : 1;
    for (std::size_t d = order.size(); d-- > 0;) {
      layout.shape[order[d]] = this->shape[order[d]];
      layout.strides[order[d]] = stride;
      stride *= this->shape[order[d]];
      if (random() % 3 == 0) stride += random() % 5;
    }
    memory.assign(stride + 1, kUntouched);
  }
  std::size_t PlaceOf(const Index& index) const {
    std::size_t place = 0;
    for (std::size_t d = 0; d < index.size(); ++d) place += index[d] * layout.strides[d];
    return place;
  }
  std::int32_t& operator[](const Index& index) { return memory[PlaceOf(index)]; }

  tuttiTensorLayout_t layout;
  Index shape;
  std::vector<std::int32_t> memory;
};

// What rank `rank` has at `index` of what it sends.
std::int32_t Value(int rank, const Index& index) {
  std::size_t value = static_cast<std::size_t>(rank) + 1;
  for (const auto i : index) value = value * 31 + i;
  return static_cast<std::int32_t>(value % 100'003);
}

void Fill(Tensor& tensor, int rank) {
  ForEachIndex(tensor.shape, [&](const Index& index) { tensor[index] = Value(rank, index); });
}

// Everything else in the tensor's memory is as it was.
void ExpectIs(Tensor& tensor, const std::function<std::int32_t(const Index&)>& wanted) {
  auto rest = tensor.memory;
  int wrong = 0;
  ForEachIndex(tensor.shape, [&](const Index& index) {
    wrong += tensor[index] != wanted(index) ? 1 : 0;
    rest[tensor.PlaceOf(index)] = kUntouched;
  });
  EXPECT_EQ(wrong, 0) << "of " << CountOf(tensor.shape);
  EXPECT_TRUE(std::all_of(rest.begin(), rest.end(), [](auto value) { return value == kUntouched; }));
}

struct Trial {
  Index block;
  std::size_t dim, other_dim;
};

// The same on all ranks. Now and then a long one, which takes several chunks.
Trial MakeTrial(unsigned seed) {
  std::mt19937 random(seed);
  Trial trial{Index(1 + random() % 4), 0, 0};
  for (auto& size : trial.block) size = 1 + random() % 6;
  trial.dim = random() % trial.block.size();
  trial.other_dim = random() % trial.block.size();
  if (random() % 3 == 0) trial.block[random() % trial.block.size()] *= 400 + random() % 400;
  return trial;
}

Index Times(Index shape, std::size_t dim, int ranks) {
  shape[dim] *= static_cast<std::size_t>(ranks);
  return shape;
}

// The rank whose block has `index` along `dim`; `index` becomes one in the block.
int Owner(Index& index, std::size_t dim, const Index& block) {
  const auto owner = index[dim] / block[dim];
  index[dim] %= block[dim];
  return static_cast<int>(owner);
}

void AllGather(tuttiComm_t comm, const Rank& self, const Trial& trial, std::mt19937& random) {
  Tensor send(trial.block, random), receive(Times(trial.block, trial.dim, self.size()), random);
  Fill(send, self.rank());
  ASSERT_TRUE(Ok(tuttiAllGatherTensor(send.memory.data(), &send.layout, receive.memory.data(), &receive.layout,
                                      static_cast<int>(trial.dim), tuttiInt32, comm, nullptr)));
  const auto wanted = [&](Index index) {
    const int owner = Owner(index, trial.dim, trial.block);
    return Value(owner, index);
  };
  ExpectIs(receive, wanted);
  ExpectIs(send, [&](const Index& index) { return Value(self.rank(), index); });
  // In place: what is sent is a part of what is received.
  Tensor both(receive.shape, random);
  Index first(trial.block.size());
  first[trial.dim] = static_cast<std::size_t>(self.rank()) * trial.block[trial.dim];
  ForEachIndex(trial.block, [&](Index index) {
    const auto value = Value(self.rank(), index);
    index[trial.dim] += first[trial.dim];
    both[index] = value;
  });
  auto part = both.layout;
  for (std::size_t d = 0; d < trial.block.size(); ++d) part.shape[d] = trial.block[d];
  ASSERT_TRUE(Ok(tuttiAllGatherTensor(&both[first], &part, both.memory.data(), &both.layout,
                                      static_cast<int>(trial.dim), tuttiInt32, comm, nullptr)));
  ExpectIs(both, wanted);
}

void ReduceScatter(tuttiComm_t comm, const Rank& self, const Trial& trial, std::mt19937& random) {
  Tensor send(Times(trial.block, trial.dim, self.size()), random), receive(trial.block, random);
  Fill(send, self.rank());
  ASSERT_TRUE(Ok(tuttiReduceScatterTensor(send.memory.data(), &send.layout, receive.memory.data(), &receive.layout,
                                          static_cast<int>(trial.dim), tuttiInt32, tuttiSum, comm, nullptr)));
  ExpectIs(receive, [&](Index index) {
    index[trial.dim] += static_cast<std::size_t>(self.rank()) * trial.block[trial.dim];
    std::int32_t sum = 0;
    for (int rank = 0; rank < self.size(); ++rank) sum += Value(rank, index);
    return sum;
  });
  ExpectIs(send, [&](const Index& index) { return Value(self.rank(), index); });
}

void AllToAll(tuttiComm_t comm, const Rank& self, const Trial& trial, std::mt19937& random) {
  Tensor send(Times(trial.block, trial.dim, self.size()), random);
  Tensor receive(Times(trial.block, trial.other_dim, self.size()), random);
  Fill(send, self.rank());
  ASSERT_TRUE(
      Ok(tuttiAlltoAllTensor(send.memory.data(), &send.layout, static_cast<int>(trial.dim), receive.memory.data(),
                             &receive.layout, static_cast<int>(trial.other_dim), tuttiInt32, comm, nullptr)));
  ExpectIs(receive, [&](Index index) {
    const int owner = Owner(index, trial.other_dim, trial.block);
    index[trial.dim] += static_cast<std::size_t>(self.rank()) * trial.block[trial.dim];
    return Value(owner, index);
  });
}

void EveryForm(Rank& self, int trials) {
  const auto comm = self.Join();
  for (int t = 0; t < trials; ++t) {
    const auto seed = static_cast<unsigned>(t);
    const auto trial = MakeTrial(seed);
    SCOPED_TRACE(fmt::format("trial {} on {} ranks", t, self.size()));
    std::mt19937 random(1000 * seed + static_cast<unsigned>(self.rank()));  // each rank has strides of its own
    AllGather(comm, self, trial, random);
    ReduceScatter(comm, self, trial, random);
    AllToAll(comm, self, trial, random);
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

// Algorithms take different ways through the same places, wires cut them into different pieces.
TEST(Tensor, ByEveryAlgorithmAndWire) {
  for (const char* algorithms : {"ring", "direct", "all_gather:bruck,all_to_all:bruck", "recursive"}) {
    for (const auto& [variable, value] : {std::pair{"TUTTI_WIRE", "inline"}, std::pair{"TUTTI_WIRE", "bulk"},
                                          std::pair{"TUTTI_CHUNK", "192"}, std::pair{"TUTTI_CMA", "1"}}) {
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
    gather(&part, &huge, 1, {"recvlayout", "more than memory can hold"});
    EXPECT_TRUE(Fails(tuttiAllGatherTensor(nullptr, &part, b.data(), &whole, 1, tuttiFloat32, comm, nullptr),
                      tuttiInvalidArgument, {"sendbuff is NULL"}));
    EXPECT_TRUE(Fails(tuttiAllGatherTensor(&b[1], &part, b.data(), &whole, 1, tuttiFloat32, comm, nullptr),
                      tuttiInvalidArgument, {"overlap"}));
    EXPECT_TRUE(
        Fails(tuttiReduceScatterTensor(a.data(), &whole, b.data(), &part, 0, tuttiFloat32, tuttiSum, comm, nullptr),
              tuttiInvalidArgument, {"recvlayout has shape [4, 6]", "[2, 12]"}));
    EXPECT_TRUE(Fails(tuttiAlltoAllTensor(a.data(), &part, 1, b.data(), &whole, 0, tuttiFloat32, comm, nullptr),
                      tuttiInvalidArgument, {"the blocks differ", "[4, 3]", "[2, 12]"}));
    // The communicator has not suffered; an empty tensor is nothing to do.
    const auto none = Dense(0, 6), nothing = Dense(0, 12);
    EXPECT_TRUE(Ok(tuttiAllGatherTensor(nullptr, &none, nullptr, &nothing, 1, tuttiFloat32, comm, nullptr)));
    self.Meet();
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

// bf16 and averages take the reducing way, too; streams keep the layouts.
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
