// Checks the tensor collectives with random shapes, dimensions and strides against loops over indices, in host or GPU
// memory.
//
// Thread-safety: everything here belongs to one rank.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include "testing/arena.h"
#include "testing/ranks.h"

namespace tutti::testing {

using Index = std::vector<std::size_t>;

inline std::size_t CountOf(const Index& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
}

inline void ForEachIndex(const Index& shape, const std::function<void(const Index&)>& function) {
  Index index(shape.size());
  for (std::size_t left = CountOf(shape); left > 0; --left) {
    function(index);
    for (std::size_t d = shape.size(); d-- > 0 && ++index[d] == shape[d];) index[d] = 0;
  }
}

// Where the tensors of calls lie: by default in host memory, without a stream.
struct Where {
  Arena* gpu_memory = nullptr;  // of `gpu`
  const Gpu* gpu = nullptr;
  tuttiStream_t stream = nullptr;
};

template <typename T>
struct TypeOf;
template <>
struct TypeOf<std::int8_t> {
  static constexpr auto kValue = tuttiInt8;
};
template <>
struct TypeOf<std::int32_t> {
  static constexpr auto kValue = tuttiInt32;
};
template <>
struct TypeOf<double> {
  static constexpr auto kValue = tuttiFloat64;
};

// A tensor in its own memory: dimensions in any order, with gaps, starting a few elements into the memory.
template <typename T>
class Tensor {
 public:
  static constexpr T kUntouched = -77;

  Tensor(Index shape, std::mt19937& random) : layout{}, shape(std::move(shape)) {
    layout.ndims = static_cast<int>(this->shape.size());
    Index order(this->shape.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (random() % 3 == 0) std::shuffle(order.begin(), order.end(), random);
    // Gaps of a vector's length keep vectors aligned.
    const std::size_t gap = random() % 3 == 0 ? 16 : 1;
    std::size_t stride = random() % 8 == 0 ? 2 : 1;
    for (std::size_t d = order.size(); d-- > 0;) {
      layout.shape[order[d]] = this->shape[order[d]];
      layout.strides[order[d]] = stride;
      stride *= this->shape[order[d]];
      if (random() % 3 == 0) stride += random() % 5 * gap;
    }
    origin_ = random() % 3 == 0 ? random() % 5 : 0;
    memory.assign(origin_ + stride + 1, kUntouched);
  }

  // The index's offset from the first element, in elements.
  std::size_t PlaceOf(const Index& index) const {
    std::size_t place = 0;
    for (std::size_t d = 0; d < index.size(); ++d) place += index[d] * layout.strides[d];
    return place;
  }
  T& operator[](const Index& index) { return memory[origin_ + PlaceOf(index)]; }

  // Passes the present contents to a call; returns the address of the first element.
  T* ForCall(const Where& where, bool receives) {
    if (where.gpu_memory == nullptr) return memory.data() + origin_;
    bytes_ = receives ? where.gpu_memory->receive() : where.gpu_memory->send();
    EXPECT_LE(memory.size() * sizeof(T), where.gpu_memory->bytes());
    where.gpu->Put(bytes_, memory.data(), memory.size() * sizeof(T));
    return reinterpret_cast<T*>(bytes_) + origin_;
  }
  // Fetches the contents after a call.
  void AfterCall(const Where& where) {
    if (where.gpu_memory != nullptr) where.gpu->Get(memory.data(), bytes_, memory.size() * sizeof(T));
  }

  // Expects these elements, and everything else in the tensor's memory unchanged.
  void ExpectIs(const std::function<T(const Index&)>& wanted) {
    auto rest = memory;
    int wrong = 0;
    ForEachIndex(shape, [&](const Index& index) {
      wrong += (*this)[index] != wanted(index) ? 1 : 0;
      rest[origin_ + PlaceOf(index)] = kUntouched;
    });
    EXPECT_EQ(wrong, 0) << "of " << CountOf(shape);
    EXPECT_TRUE(std::all_of(rest.begin(), rest.end(), [](auto value) { return value == kUntouched; }));
  }

  tuttiTensorLayout_t layout;
  Index shape;
  std::vector<T> memory;

 private:
  std::size_t origin_ = 0;
  std::byte* bytes_ = nullptr;  // of the GPU
};

struct Trial {
  Index block;
  std::size_t dim, other_dim;
};

// The same on all ranks. Some have a long dimension, which takes several chunks. A block has at most `most` elements.
inline Trial MakeTrial(unsigned seed, std::size_t most) {
  std::mt19937 random(seed);
  Trial trial{Index(1 + random() % 4), 0, 0};
  for (auto& size : trial.block) size = 1 + random() % 6;
  trial.dim = random() % trial.block.size();
  trial.other_dim = random() % trial.block.size();
  if (random() % 3 == 0) trial.block[random() % trial.block.size()] *= 400 + random() % 400;
  // Rows of whole vectors.
  if (random() % 4 == 0) trial.block.back() = (1 + random() % 3) * 16;
  while (CountOf(trial.block) > most) {
    auto& longest = *std::max_element(trial.block.begin(), trial.block.end());
    longest = (longest + 1) / 2;
  }
  return trial;
}

inline Index Times(Index shape, std::size_t dim, int ranks) {
  shape[dim] *= static_cast<std::size_t>(ranks);
  return shape;
}

// Returns the rank whose block contains `index` along `dim`, and makes `index` relative to that block.
inline int Owner(Index& index, std::size_t dim, const Index& block) {
  const auto owner = index[dim] / block[dim];
  index[dim] %= block[dim];
  return static_cast<int>(owner);
}

// One rank's calls on tensors of T.
template <typename T>
class TensorForms {
 public:
  TensorForms(tuttiComm_t comm, const Rank& self, Where where) : comm_(comm), self_(self), where_(where) {}

  void Run(const Trial& trial, std::mt19937& random) {
    AllGather(trial, random);
    ReduceScatter(trial, random);
    AllToAll(trial, random);
  }

 private:
  static constexpr auto kType = TypeOf<T>::kValue;

  // Rank `rank`'s input at `index`. Sums are exact, or wrap.
  static std::int64_t Value(int rank, const Index& index) {
    std::size_t value = static_cast<std::size_t>(rank) + 1;
    for (const auto i : index) value = value * 31 + i;
    return static_cast<std::int64_t>(value % 100'003);
  }
  // Wraps as often as a type of few bits does.
  static T Wrapped(std::int64_t value) { return static_cast<T>(value); }
  T Own(const Index& index) const { return Wrapped(Value(self_.rank(), index)); }
  std::size_t Before(const Trial& trial) const {
    return static_cast<std::size_t>(self_.rank()) * trial.block[trial.dim];
  }

  void Fill(Tensor<T>& tensor) const {
    ForEachIndex(tensor.shape, [&](const Index& index) { tensor[index] = Own(index); });
  }
  void Settle(tuttiResult_t result) const {
    ASSERT_TRUE(Ok(result));
    if (where_.gpu == nullptr) return;
    ASSERT_TRUE(Ok(where_.gpu->Synchronize(where_.stream)));
  }
  void Take(Tensor<T>& send, Tensor<T>& receive) const {
    receive.AfterCall(where_);
    send.AfterCall(where_);
  }

  void AllGather(const Trial& trial, std::mt19937& random) {
    Tensor<T> send(trial.block, random), receive(Times(trial.block, trial.dim, self_.size()), random);
    Fill(send);
    Settle(tuttiAllGatherTensor(send.ForCall(where_, false), &send.layout, receive.ForCall(where_, true),
                                &receive.layout, static_cast<int>(trial.dim), kType, comm_, where_.stream));
    Take(send, receive);
    const auto wanted = [&](Index index) {
      const int owner = Owner(index, trial.dim, trial.block);
      return Wrapped(Value(owner, index));
    };
    receive.ExpectIs(wanted);
    send.ExpectIs([&](const Index& index) { return Own(index); });
    // In place: the input is a part of the output.
    Tensor<T> both(receive.shape, random);
    Index first(trial.block.size());
    first[trial.dim] = Before(trial);
    ForEachIndex(trial.block, [&](Index index) {
      const T value = Own(index);
      index[trial.dim] += first[trial.dim];
      both[index] = value;
    });
    auto part = both.layout;
    for (std::size_t d = 0; d < trial.block.size(); ++d) part.shape[d] = trial.block[d];
    T* const all = both.ForCall(where_, true);
    Settle(tuttiAllGatherTensor(all + both.PlaceOf(first), &part, all, &both.layout, static_cast<int>(trial.dim), kType,
                                comm_, where_.stream));
    both.AfterCall(where_);
    both.ExpectIs(wanted);
  }

  void ReduceScatter(const Trial& trial, std::mt19937& random) {
    Tensor<T> send(Times(trial.block, trial.dim, self_.size()), random), receive(trial.block, random);
    Fill(send);
    Settle(tuttiReduceScatterTensor(send.ForCall(where_, false), &send.layout, receive.ForCall(where_, true),
                                    &receive.layout, static_cast<int>(trial.dim), kType, tuttiSum, comm_,
                                    where_.stream));
    Take(send, receive);
    const auto wanted = [&](Index index) {
      index[trial.dim] += Before(trial);
      std::int64_t sum = 0;
      for (int rank = 0; rank < self_.size(); ++rank) sum += Value(rank, index);
      return Wrapped(sum);
    };
    receive.ExpectIs(wanted);
    send.ExpectIs([&](const Index& index) { return Own(index); });
    // In place: the output is a part of the input. (The library promises nothing about the other parts.)
    Tensor<T> both(send.shape, random);
    Fill(both);
    Index first(trial.block.size());
    first[trial.dim] = Before(trial);
    auto part = both.layout;
    for (std::size_t d = 0; d < trial.block.size(); ++d) part.shape[d] = trial.block[d];
    T* const all = both.ForCall(where_, true);
    Settle(tuttiReduceScatterTensor(all, &both.layout, all + both.PlaceOf(first), &part, static_cast<int>(trial.dim),
                                    kType, tuttiSum, comm_, where_.stream));
    both.AfterCall(where_);
    int wrong = 0;
    ForEachIndex(trial.block, [&](Index index) {
      const T value = wanted(index);
      index[trial.dim] += first[trial.dim];
      wrong += both[index] != value ? 1 : 0;
    });
    EXPECT_EQ(wrong, 0) << "of " << CountOf(trial.block) << " in place";
  }

  void AllToAll(const Trial& trial, std::mt19937& random) {
    Tensor<T> send(Times(trial.block, trial.dim, self_.size()), random);
    Tensor<T> receive(Times(trial.block, trial.other_dim, self_.size()), random);
    Fill(send);
    Settle(tuttiAlltoAllTensor(send.ForCall(where_, false), &send.layout, static_cast<int>(trial.dim),
                               receive.ForCall(where_, true), &receive.layout, static_cast<int>(trial.other_dim), kType,
                               comm_, where_.stream));
    Take(send, receive);
    receive.ExpectIs([&](Index index) {
      const int owner = Owner(index, trial.other_dim, trial.block);
      index[trial.dim] += Before(trial);
      return Wrapped(Value(owner, index));
    });
    send.ExpectIs([&](const Index& index) { return Own(index); });
  }

  tuttiComm_t comm_;
  const Rank& self_;
  Where where_;
};

}  // namespace tutti::testing
