#include "src/operation.h"

#include <fmt/format.h>

#include "base/datatype.h"
#include "transports/slot.h"

namespace tutti {
namespace {

constexpr std::uint64_t Combine(std::uint64_t hash, std::uint64_t value) {
  return Mix(hash ^ (value + 0x9e3779b97f4a7c15ULL + (hash << 6)));
}

// PackCall's fields, lowest bits first.
constexpr int kTypeShift = 8, kOpShift = 16, kFlagShift = 24, kRootShift = 32;
constexpr std::uint64_t kScaledFlag = 1, kUnevenFlag = 2;

}  // namespace

std::uint64_t PackCall(const Operation& operation) {
  const std::uint64_t flags = (operation.scaled ? kScaledFlag : 0) | (operation.uneven != nullptr ? kUnevenFlag : 0);
  const std::uint64_t op = IsReducing(operation.collective) ? static_cast<std::uint64_t>(operation.op) : 0;
  const bool has_root = HasRoot(operation.collective) || operation.point_to_point();
  const std::uint64_t root = has_root ? static_cast<std::uint32_t>(operation.root) : 0;
  return static_cast<std::uint64_t>(operation.collective) | static_cast<std::uint64_t>(operation.type) << kTypeShift |
         op << kOpShift | flags << kFlagShift | root << kRootShift;
}

std::uint64_t SignatureOf(const Operation& operation) {
  if (operation.point_to_point()) {
    // The pair agrees on type and length only; who sends is clear from the connection.
    return Combine(Combine(0, static_cast<std::uint64_t>(operation.type)), operation.count);
  }
  std::uint64_t hash = Combine(PackCall(operation), operation.count);
  if (operation.uneven != nullptr && !operation.pairwise()) {
    for (const auto count : operation.uneven->counts) hash = Combine(hash, count);
  }
  return hash;
}

std::string DescribeCall(std::uint64_t packed, std::uint64_t count) {
  const auto collective = static_cast<Collective>(packed & 0xff);
  const auto type = static_cast<tuttiDataType_t>(packed >> kTypeShift & 0xff);
  const auto op = static_cast<tuttiRedOp_t>(packed >> kOpShift & 0xff);
  const auto flags = packed >> kFlagShift & 0xff;
  const auto root = static_cast<int>(packed >> kRootShift);
  if (collective == Collective::barrier) return "barrier()";
  std::string text = fmt::format("{}{}(", NameOf(collective), (flags & kUnevenFlag) != 0 ? "_v" : "");
  if ((flags & kUnevenFlag) == 0) {
    text += fmt::format("count={}", count);
  } else {
    text += collective == Collective::all_to_all ? "counts per pair" : "counts per rank";
  }
  text += fmt::format(", {}", NameOf(type));
  if (IsReducing(collective)) text += fmt::format(", {}", (flags & kScaledFlag) != 0 ? "premulsum" : NameOf(op));
  if (HasRoot(collective)) text += fmt::format(", root={}", root);
  if (collective == Collective::send) text += fmt::format(", to rank {}", root);
  if (collective == Collective::receive) text += fmt::format(", from rank {}", root);
  return text + ")";
}

}  // namespace tutti
