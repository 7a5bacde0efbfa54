#include "src/device/copy_engines.h"

#include "base/numbers/datatype.h"

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
  const std::size_t output = block * static_cast<std::size_t>(nranks);
  if (block < kLeastBlock) return std::nullopt;
  const auto access = windows.Find(operation.output, output);
  if (!access) return std::nullopt;
  // A number of a window takes 16 bits, and no offset has more than 48.
  EngineCopies copies{{}, access->base << 16 | access->window, output - block};
  const auto* const input = static_cast<const std::byte*>(operation.input);
  const auto mine = static_cast<std::size_t>(rank) * block;
  // Each rank begins with another peer.
  for (int i = 1; i <= nranks; ++i) {
    const int peer = (rank + i) % nranks;
    const auto theirs = windows.PartOf(access->window, peer);
    if (access->base > theirs.size() || output > theirs.size() - access->base) return std::nullopt;
    std::byte* const to = theirs.data() + access->base + mine;
    const std::byte* const from = exchanges ? input + static_cast<std::size_t>(peer) * block : input;
    if (to != from) copies.all.push_back({to, from, block});
  }
  return copies;
}

}  // namespace tutti::device
