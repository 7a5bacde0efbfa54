// Collective calls and messages from text, on data derived from rank and position. Real ranks make the calls and check
// the results against loops over ranks. For campaigns.
//
// Thread-safety: a Caller belongs to its rank.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::testing {

// "all_reduce:int32:sum:100:2:1": kind, type, operator, count, root (or peer), variant (of v-form counts, or the
// dimension of tensors).
struct Call {
  std::string kind = "barrier";
  tuttiDataType_t type = tuttiInt32;
  tuttiRedOp_t op = tuttiSum;
  std::size_t count = 1;
  int root = 0;
  int variant = 0;
};

inline constexpr std::array<std::pair<std::string_view, tuttiDataType_t>, 4> kCallTypes = {
    {{"int8", tuttiInt8}, {"int32", tuttiInt32}, {"float32", tuttiFloat32}, {"float64", tuttiFloat64}}};
inline constexpr std::array<std::pair<std::string_view, tuttiRedOp_t>, 3> kCallOps = {
    {{"sum", tuttiSum}, {"max", tuttiMax}, {"min", tuttiMin}}};

inline Call ParseCall(const std::string& text) {
  std::istringstream fields(text);
  std::array<std::string, 6> words;
  for (auto& word : words) std::getline(fields, word, ':');
  Call call;
  call.kind = words[0];
  for (const auto& [name, type] : kCallTypes) {
    if (words[1] == name) call.type = type;
  }
  for (const auto& [name, op] : kCallOps) {
    if (words[2] == name) call.op = op;
  }
  call.count = std::stoul(words[3]);
  call.root = std::stoi(words[4]);
  call.variant = std::stoi(words[5]);
  return call;
}

// Makes calls and checks their results. Elements are small whole numbers, exact in every type.
class Caller {
 public:
  Caller(int rank, int size) : rank_(rank), size_(size) {}

  // Fills the input. The buffers keep their contents until the next Prepare.
  void Prepare(const Call& call) {
    const auto places = static_cast<std::size_t>(size_) * Longest(call);
    input_.resize(places * kWidest);
    output_.assign(places * kWidest, std::byte{0x55});
    for (std::size_t i = 0; i < places; ++i) Store(call.type, input_.data(), i, Element(rank_, i));
    sends_ = SendCounts(call, rank_);
    receives_ = ReceiveCounts(call, rank_);
    send_places_ = PlacesOf(sends_);
    receive_places_ = PlacesOf(receives_);
  }

  tuttiResult_t Make(const Call& c, tuttiComm_t comm, tuttiStream_t stream) {
    const void* const in = input_.data();
    void* const out = output_.data();
    const auto& kind = c.kind;
    if (kind == "idle") return tuttiSuccess;
    if (kind == "barrier") return tuttiBarrier(comm, stream);
    if (kind == "all_reduce") return tuttiAllReduce(in, out, c.count, c.type, c.op, comm, stream);
    if (kind == "reduce") return tuttiReduce(in, out, c.count, c.type, c.op, c.root, comm, stream);
    if (kind == "broadcast") return tuttiBroadcast(in, out, c.count, c.type, c.root, comm, stream);
    if (kind == "gather") return tuttiGather(in, out, c.count, c.type, c.root, comm, stream);
    if (kind == "scatter") return tuttiScatter(in, out, c.count, c.type, c.root, comm, stream);
    if (kind == "all_gather") return tuttiAllGather(in, out, c.count, c.type, comm, stream);
    if (kind == "all_to_all") return tuttiAlltoAll(in, out, c.count, c.type, comm, stream);
    if (kind == "reduce_scatter") return tuttiReduceScatter(in, out, c.count, c.type, c.op, comm, stream);
    if (kind == "all_gather_v") {
      return tuttiAllGatherV(in, receives_[static_cast<std::size_t>(rank_)], out, receives_.data(),
                             receive_places_.data(), c.type, comm, stream);
    }
    if (kind == "reduce_scatter_v") {
      return tuttiReduceScatterV(in, out, receives_.data(), c.type, c.op, comm, stream);
    }
    if (kind == "all_to_all_v") {
      return tuttiAlltoAllV(in, sends_.data(), send_places_.data(), out, receives_.data(), receive_places_.data(),
                            c.type, comm, stream);
    }
    if (kind == "send") return tuttiSend(in, c.count, c.type, c.root, comm, stream);
    if (kind == "receive") return tuttiRecv(out, c.count, c.type, c.root, comm, stream);
    return MakeTensor(c, comm, stream);
  }

  // Whether the output is correct if every rank makes this call; messages are not checked.
  bool Right(const Call& c) const {
    const auto me = static_cast<std::size_t>(rank_);
    const auto& kind = c.kind;
    const auto all = [&](std::size_t from, std::size_t count, auto&& wanted) {
      for (std::size_t i = 0; i < count; ++i) {
        if (Load(c.type, output_.data(), from + i) != wanted(i)) return false;
      }
      return true;
    };
    if (kind == "all_reduce" || (kind == "reduce" && rank_ == c.root)) {
      return all(0, c.count, [&](std::size_t i) { return Reduced(c, i); });
    }
    if (kind == "broadcast") return all(0, c.count, [&](std::size_t i) { return Element(c.root, i); });
    if (kind == "scatter") return all(0, c.count, [&](std::size_t i) { return Element(c.root, me * c.count + i); });
    if (kind == "reduce_scatter") return all(0, c.count, [&](std::size_t i) { return Reduced(c, me * c.count + i); });
    if (kind == "reduce_scatter_v") {
      return all(0, receives_[me], [&](std::size_t i) { return Reduced(c, receive_places_[me] + i); });
    }
    const bool gathers = kind == "all_gather" || (kind == "gather" && rank_ == c.root);
    for (int r = 0; r < size_; ++r) {
      const auto from = static_cast<std::size_t>(r);
      bool right = true;
      if (gathers) right = all(from * c.count, c.count, [&](std::size_t i) { return Element(r, i); });
      if (kind == "all_to_all") {
        right = all(from * c.count, c.count, [&](std::size_t i) { return Element(r, me * c.count + i); });
      }
      if (kind == "all_gather_v") {
        right = all(receive_places_[from], receives_[from], [&](std::size_t i) { return Element(r, i); });
      }
      if (kind == "all_to_all_v") {
        const auto theirs = PlacesOf(SendCounts(c, r));
        right = all(receive_places_[from], receives_[from], [&](std::size_t i) { return Element(r, theirs[me] + i); });
      }
      if (!right) return false;
    }
    return RightTensor(c);
  }

 private:
  static constexpr std::size_t kWidest = sizeof(double);
  static constexpr std::size_t kRows = 3;  // of tensors, in the dimension that is not divided among ranks

  static int Element(int rank, std::size_t place) {
    return static_cast<int>((static_cast<std::size_t>(rank) * 7 + place * 3) % 5);
  }
  int Reduced(const Call& c, std::size_t place) const {
    int result = Element(0, place);
    for (int r = 1; r < size_; ++r) {
      const int next = Element(r, place);
      result = c.op == tuttiSum ? result + next : c.op == tuttiMax ? std::max(result, next) : std::min(result, next);
    }
    return result;
  }

  template <typename Do>
  static void WithType(tuttiDataType_t type, Do&& run) {
    switch (type) {
      case tuttiInt8: return run(std::int8_t{});
      case tuttiInt32: return run(std::int32_t{});
      case tuttiFloat32: return run(float{});
      default: return run(double{});
    }
  }
  static void Store(tuttiDataType_t type, std::byte* to, std::size_t place, int value) {
    WithType(type, [&](auto sample) {
      const auto element = static_cast<decltype(sample)>(value);
      std::memcpy(to + place * sizeof element, &element, sizeof element);
    });
  }
  static int Load(tuttiDataType_t type, const std::byte* from, std::size_t place) {
    int value = 0;
    WithType(type, [&](auto element) {
      std::memcpy(&element, from + place * sizeof element, sizeof element);
      value = static_cast<int>(element);
    });
    return value;
  }

  std::size_t Longest(const Call& call) const { return std::max<std::size_t>(1, kRows * (call.count + 4)); }

  // Block lengths of v-forms by rank: all ranks' in all_gather_v and reduce_scatter_v, those to each in all_to_all_v.
  std::vector<std::size_t> SendCounts(const Call& call, int rank) const {
    std::vector<std::size_t> counts;
    for (int r = 0; r < size_; ++r) counts.push_back(PairCount(call, rank, r));
    return counts;
  }
  std::vector<std::size_t> ReceiveCounts(const Call& call, int rank) const {
    std::vector<std::size_t> counts;
    for (int r = 0; r < size_; ++r) {
      const bool pairs = call.kind == "all_to_all_v";
      counts.push_back(pairs ? PairCount(call, r, rank)
                             : call.count + static_cast<std::size_t>((r + call.variant) % 4));
    }
    return counts;
  }
  static std::size_t PairCount(const Call& call, int from, int to) {
    return call.count + static_cast<std::size_t>((from * 3 + to * 5 + call.variant) % 4);
  }
  static std::vector<std::size_t> PlacesOf(const std::vector<std::size_t>& counts) {
    std::vector<std::size_t> places;
    std::size_t place = 0;
    for (const auto count : counts) {
      places.push_back(place);
      place += count;
    }
    return places;
  }

  // A layout of kRows rows, or columns, with `count` elements for each of `parts` ranks.
  static tuttiTensorLayout_t Layout(const Call& call, int dim, std::size_t parts) {
    const std::size_t split = call.count * parts, rows = dim == 0 ? split : kRows, columns = dim == 0 ? kRows : split;
    tuttiTensorLayout_t layout{};
    layout.ndims = 2;
    layout.shape[0] = rows;
    layout.shape[1] = columns;
    layout.strides[0] = columns;
    layout.strides[1] = 1;
    return layout;
  }
  tuttiResult_t MakeTensor(const Call& c, tuttiComm_t comm, tuttiStream_t stream) {
    const int dim = c.variant % 2;
    const auto one = Layout(c, dim, 1), all = Layout(c, dim, static_cast<std::size_t>(size_));
    const void* const in = input_.data();
    void* const out = output_.data();
    if (c.kind == "all_gather_tensor") return tuttiAllGatherTensor(in, &one, out, &all, dim, c.type, comm, stream);
    if (c.kind == "reduce_scatter_tensor") {
      return tuttiReduceScatterTensor(in, &all, out, &one, dim, c.type, c.op, comm, stream);
    }
    if (c.kind == "all_to_all_tensor") return tuttiAlltoAllTensor(in, &all, dim, out, &all, dim, c.type, comm, stream);
    return tuttiInternalError;  // a kind that campaigns do not use
  }
  bool RightTensor(const Call& c) const {
    if (!c.kind.ends_with("_tensor")) return true;
    const int dim = c.variant % 2;
    const auto me = static_cast<std::size_t>(rank_);
    const auto one = Layout(c, dim, 1), all = Layout(c, dim, static_cast<std::size_t>(size_));
    const auto at = [&](const tuttiTensorLayout_t& layout, std::size_t part, std::size_t row, std::size_t column) {
      (dim == 0 ? row : column) += part * c.count;
      return row * layout.strides[0] + column;
    };
    for (std::size_t row = 0; row < one.shape[0]; ++row) {
      for (std::size_t column = 0; column < one.shape[1]; ++column) {
        const auto got = [&](std::size_t place) { return Load(c.type, output_.data(), place); };
        if (c.kind == "reduce_scatter_tensor") {
          if (got(at(one, 0, row, column)) != Reduced(c, at(all, me, row, column))) return false;
          continue;
        }
        for (std::size_t r = 0; r < static_cast<std::size_t>(size_); ++r) {
          const auto theirs = c.kind == "all_gather_tensor" ? at(one, 0, row, column) : at(all, me, row, column);
          if (got(at(all, r, row, column)) != Element(static_cast<int>(r), theirs)) return false;
        }
      }
    }
    return true;
  }

  int rank_, size_;
  std::vector<std::byte> input_, output_;
  std::vector<std::size_t> sends_, receives_, send_places_, receive_places_;
};

}  // namespace tutti::testing
