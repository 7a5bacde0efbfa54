#include "src/plan/operation.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/numbers/datatype.h"
#include "transports/ring/slot.h"

namespace tutti::plan {
namespace {

constexpr std::uint64_t Combine(std::uint64_t hash, std::uint64_t value) {
  return ring::Mix(hash ^ (value + 0x9e3779b97f4a7c15ULL + (hash << 6)));
}

}  // namespace

Operation Barrier() {
  Operation operation;
  operation.collective = schedule::Collective::barrier;
  operation.count = 1;
  return operation;
}

std::uint64_t SignatureOf(const Operation& operation) {
  if (operation.point_to_point()) {
    // The pair agrees on type and length only; the connection shows which rank sends.
    return Combine(Combine(0, static_cast<std::uint64_t>(operation.type)), operation.count);
  }
  std::uint64_t hash = Combine(PackCall(operation), operation.count);
  if (operation.vector_counts != nullptr && !operation.pairwise()) {
    for (const auto count : operation.vector_counts->counts) hash = Combine(hash, count);
  }
  if (operation.tensors != nullptr) {
    for (const auto number : operation.tensors->agreed) hash = Combine(hash, number);
  }
  return hash;
}

Operation UnpackCall(std::uint64_t packed, std::uint64_t count) {
  Operation operation;
  operation.collective = static_cast<schedule::Collective>(packed & 0xff);
  operation.count = count;
  // A peer wrote this, so it may be anything. The end values of the enumerations have no name.
  const auto type = packed >> kTypeShift & 0xff, op = packed >> kOpShift & 0xff;
  operation.type = type < tuttiNumTypes ? static_cast<tuttiDataType_t>(type) : tuttiNumTypes;
  operation.op = op < tuttiNumOps ? static_cast<tuttiRedOp_t>(op) : tuttiNumOps;
  operation.root = static_cast<int>(packed >> kRootShift);
  const auto flags = packed >> kFlagShift & 0xff;
  operation.scaled = (flags & kScaledFlag) != 0;
  operation.own = (flags & kOwnFlag) != 0;
  if ((flags & kVectorFlag) != 0) operation.vector_counts = std::make_shared<VectorCounts>();
  if ((flags & kTensorsFlag) != 0) operation.tensors = std::make_shared<Tensors>();
  return operation;
}

std::string DescribeCall(std::uint64_t packed, std::uint64_t count) {
  const Operation call = UnpackCall(packed, count);
  const bool vector_counts = call.vector_counts != nullptr;
  if (call.collective == schedule::Collective::barrier) return "barrier()";
  if (call.collective == schedule::Collective::signal) return fmt::format("signal(to rank {})", call.root);
  if (call.collective == schedule::Collective::wait_signal)
    return fmt::format("wait_signal(count={}, from rank {})", count, call.root);
  const char* const form = vector_counts ? "_v" : call.tensors != nullptr ? "_tensor" : "";
  std::string text = fmt::format("{}{}(", schedule::NameOf(call.collective), form);
  if (!vector_counts) {
    text += fmt::format("count={}", count);
  } else {
    text += schedule::HasBlocksOfPairs(call.collective) ? "counts per pair" : "counts per rank";
  }
  text += fmt::format(", {}", NameOf(call.type));
  if (schedule::IsReducing(call.collective)) text += fmt::format(", {}", call.scaled ? "premulsum" : NameOf(call.op));
  if (schedule::HasRoot(call.collective)) text += fmt::format(", root={}", call.root);
  if (call.collective == schedule::Collective::send || call.collective == schedule::Collective::put)
    text += fmt::format(", to rank {}", call.root);
  if (call.collective == schedule::Collective::receive) text += fmt::format(", from rank {}", call.root);
  return text + (call.own ? ") of Tutti's own, to compare plans of the next call" : ")");
}

std::string_view WhereAlike(std::uint64_t packed, std::uint64_t count, std::uint64_t other, std::uint64_t other_count) {
  if (DescribeCall(packed, count) != DescribeCall(other, other_count)) return "";
  const Operation call = UnpackCall(packed, count);
  if (call.plain()) {
    return " by another plan: the ranks' tuner plug-ins chose differently, or what they name of a symmetric window "
           "lies at "
           "different offsets (TUTTI_COPY_ENGINE=1)";
  }
  return call.tensors != nullptr ? " on tensors of another shape" : " with other recvcounts";
}

void RequireOwnMessagesMatch(int rank, std::span<const Operation* const> sends,
                             std::span<const Operation* const> receives) {
  if (sends.size() != receives.size()) {
    Throw(tuttiInvalidUsage, "rank {} sends {} messages to itself and receives {} in one group", rank, sends.size(),
          receives.size());
  }
  for (std::size_t i = 0; i < sends.size(); ++i) {
    if (sends[i]->count == receives[i]->count && sends[i]->type == receives[i]->type) continue;
    Throw(tuttiInvalidUsage, "rank {} sends itself {}, but receives {}", rank,
          DescribeCall(PackCall(*sends[i]), sends[i]->count), DescribeCall(PackCall(*receives[i]), receives[i]->count));
  }
}

}  // namespace tutti::plan
