// A step of a collective call that may fail on any rank.
//
// Thread-safety: a collective function without state.
#pragma once

#include <span>
#include <string>

#include "base/all_gather.h"
#include "base/error.h"

namespace tutti::cuda_transport {

// Collective: does this rank's part. The reason why some rank's part failed, the same on all ranks; "": none.
template <typename Part>
std::string InPhase(const AllGather& all_gather, Part&& part) {
  std::string why;
  try {
    part();
  } catch (const Error& error) {
    why = error.what();
  }
  const auto all = all_gather(std::as_bytes(std::span(why)));
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].empty()) continue;
    return fmt::format("rank {}: {}", r, std::string(reinterpret_cast<const char*>(all[r].data()), all[r].size()));
  }
  return "";
}

}  // namespace tutti::cuda_transport
