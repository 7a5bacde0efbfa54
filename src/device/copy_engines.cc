#include "src/device/copy_engines.h"

#include "base/numbers/datatype.h"
#include "transports/ring/slot.h"

namespace tutti::device {
namespace {

// A copy costs some microseconds, in which a link of 50 GB/s carries so much; kernels move shorter blocks in less time.
constexpr std::size_t kLeastBlock = std::size_t{128} << 10;

}  // namespace

std::optional<EngineCopies> CopiesByEngines(const plan::Operation& operation, int rank, int nranks,
                                            const DeviceWindows& windows) {
  const Pattern& pattern = PatternOf(operation.collective);
  if (pattern.output.part != Part::all || pattern.has_root() || !operation.plain()) return std::nullopt;
  const bool exchanges = pattern.has_blocks_of_pairs();
  // In place, an exchange overwrites what has yet to be sent.
  if (exchanges && operation.in_place) return std::nullopt;
  const std::size_t block = operation.count * SizeOf(operation.type);
  if (block < kLeastBlock) return std::nullopt;
  const std::size_t all = block * static_cast<std::size_t>(nranks);
  // In place, each rank's block is a part of its output, and the outputs have one offset.
  const void* const named = operation.in_place ? operation.output : operation.input;
  const std::size_t bytes = exchanges || operation.in_place ? all : block;
  const auto access = windows.Find(named, bytes, true);
  if (!access) return std::nullopt;
  // A window's number takes 16 bits. 0 is not a place.
  const std::uint64_t number = access->base << 17 | std::uint64_t{access->window} << 1 | (operation.in_place ? 1 : 0);
  EngineCopies copies{{}, ring::Mix(number + 1), all - block};
  auto* const output = static_cast<std::byte*>(operation.output);
  // Each rank begins with another peer.
  for (int i = 1; i <= nranks; ++i) {
    const int peer = (rank + i) % nranks;
    const auto theirs = windows.PartOf(access->window, peer);
    if (access->base > theirs.size() || bytes > theirs.size() - access->base) return std::nullopt;
    const int block_there = exchanges ? rank : operation.in_place ? peer : 0;
    const std::byte* const begin = peer == rank ? static_cast<const std::byte*>(named) : theirs.data() + access->base;
    const std::byte* const from = begin + static_cast<std::size_t>(block_there) * block;
    std::byte* const to = output + static_cast<std::size_t>(peer) * block;
    if (to != from) copies.all.push_back({to, from, block});
  }
  return copies;
}

}  // namespace tutti::device
