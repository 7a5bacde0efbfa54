// One checked call, independent of the C API.
//
// Thread-safety: value types.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/schedule/schedule.h"
#include "algorithms/schedule/strided.h"
#include "executors/host/kernels/reduce.h"
#include "src/plan/call_site.h"
#include "src/plan/observed_call.h"
#include "tutti/tutti.h"

namespace tutti::plan {

// Arguments of the v-forms, in elements. all_gather, reduce_scatter: the counts of all blocks, and their places on the
// side that has all of them. all_to_all: the blocks sent and the blocks received.
struct VectorCounts {
  std::vector<std::size_t> counts;
  std::vector<std::size_t> places;
  std::vector<std::size_t> receive_counts = {};
  std::vector<std::size_t> receive_places = {};
};

// Arguments of the tensor forms.
struct Tensors {
  schedule::Strided input, output;
  // Values besides the count that ranks must agree on: the shape of a block, and the dimensions along which blocks lie.
  std::vector<std::size_t> agreed;
};

struct Operation {
  schedule::Collective collective = schedule::Collective::barrier;
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0;  // elements: of the buffer (all_reduce, broadcast, reduce), of the message, else of one block
  tuttiDataType_t type = tuttiInt8;
  tuttiRedOp_t op = tuttiSum;  // user-made operators appear as tuttiSum with `scaled`
  int root = 0;                // or the peer of a message or a one-sided operation
  std::uint8_t signal = 0;     // of one-sided operations: ring::SignalNumber(). count: how many are awaited
  bool scaled = false;
  host_kernels::Scalar scalar;
  const void* scalar_source = nullptr;  // if set, the scalar is read from here when the operation runs
  bool in_place = false;
  bool own = false;  // the library's, by which ranks tell each other what calls took (trials.h)

  std::shared_ptr<const VectorCounts> vector_counts = {};  // the v-forms'
  std::shared_ptr<const Tensors> tensors = {};             // the tensor forms'
  std::shared_ptr<const ObservedCall> observed = {};       // null: nobody observes it

  std::uint64_t site = 0;                             // CurrentSite() of its call; 0: unknown
  std::shared_ptr<const std::string> site_text = {};  // CurrentSiteText(), unless the call runs in its caller

  // PackCall and the count describe the whole operation except for buffers and scalars.
  bool plain() const { return vector_counts == nullptr && tensors == nullptr; }
  bool pairwise() const { return vector_counts != nullptr && !vector_counts->receive_counts.empty(); }
  bool point_to_point() const { return schedule::IsMessage(collective); }
  bool one_sided() const { return schedule::IsOneSided(collective); }
  // All ranks take part in it, in the same order.
  bool collective_call() const { return !point_to_point() && !one_sided(); }
};

// The arguments of a call without vectors, tensors or a user-made operator. As the caller gave them: unchecked.
struct PlainCall {
  schedule::Collective collective;
  const void* input;
  void* output;
  std::size_t count;
  tuttiDataType_t type;
  tuttiRedOp_t op = tuttiSum;
  int root = 0;
  std::uint64_t site = 0;  // CurrentSite()
};

// An all-reduce of one byte whose result is unused; the communicator holds the byte.
Operation Barrier();

// Whether a rank may finish its part of the collective without hearing from any other rank: a root that only sends, a
// contribution that is only sent, empty blocks.
inline bool MayEndAlone(const Operation& operation) {
  if (!operation.collective_call() || operation.collective == schedule::Collective::barrier) return false;
  return schedule::HasRoot(operation.collective) || operation.count == 0 || operation.vector_counts != nullptr;
}

// Hash of everything that all ranks of the operation must agree on. Omits counts that only pairs share.
std::uint64_t SignatureOf(const Operation& operation);

// PackCall's fields, lowest bits first; the collective is in the first eight.
inline constexpr int kTypeShift = 8, kOpShift = 16, kFlagShift = 24, kRootShift = 32;
inline constexpr std::uint64_t kScaledFlag = 1, kVectorFlag = 2, kTensorsFlag = 4, kOwnFlag = 8;
// A call in 64 bits, for the flight recorder: collective, type, op, root, and whether it scales, has vector counts or
// tensors, or is the library's own.
inline std::uint64_t PackCall(const Operation& operation) {
  const std::uint64_t flags = (operation.scaled ? kScaledFlag : 0) |
                              (operation.vector_counts != nullptr ? kVectorFlag : 0) |
                              (operation.tensors != nullptr ? kTensorsFlag : 0) | (operation.own ? kOwnFlag : 0);
  const std::uint64_t op = schedule::IsReducing(operation.collective) ? static_cast<std::uint64_t>(operation.op) : 0;
  const bool has_root = schedule::HasRoot(operation.collective) || !operation.collective_call();
  const std::uint64_t root = has_root ? static_cast<std::uint32_t>(operation.root) : 0;
  return static_cast<std::uint64_t>(operation.collective) | static_cast<std::uint64_t>(operation.type) << kTypeShift |
         op << kOpShift | flags << kFlagShift | root << kRootShift;
}
// The operation that was packed, as far as the words tell: no buffers, no counts of a v-form, no shapes, and a scalar
// of zero. If PackCall never made the words, a type or an operator that does not exist becomes tuttiNumTypes or
// tuttiNumOps.
Operation UnpackCall(std::uint64_t packed, std::uint64_t count);
// "all_reduce(count=1024, float32, sum)", "broadcast(count=8, int32, root=2)", "send(count=4, int8, to rank 3)".
std::string DescribeCall(std::uint64_t packed, std::uint64_t count);

// How calls with equal descriptions and other signatures differ: " with other recvcounts". Empty if the descriptions
// differ.
std::string_view WhereAlike(std::uint64_t packed, std::uint64_t count, std::uint64_t other, std::uint64_t other_count);

// The k-th message of a group to oneself matches the k-th from oneself. Throws tuttiInvalidUsage if they do not match.
void RequireOwnMessagesMatch(int rank, std::span<const Operation* const> sends,
                             std::span<const Operation* const> receives);

}  // namespace tutti::plan
