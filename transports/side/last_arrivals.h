// Peers that will send nothing more, while what they sent before may still be on its way by other means than the side
// channel.
//
// Thread-safety: one thread at a time.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/clocks/deadline.h"

namespace tutti::side {

// How long to wait for what a peer sent before its process ended, or for the side channel's word about a failed connection.
// Longer than a standstill of this process can count (Lookout::kMostCounted), so that a rank that did not run meanwhile
// looks once more; a device, too, may have acknowledged data before it puts it into memory.
inline constexpr Deadline::Milliseconds kLastArrivals{150};
// How often to look meanwhile.
inline constexpr Deadline::Milliseconds kLookForArrivals{10};

class LastArrivals {
 public:
  bool empty() const { return ends_.empty(); }
  // `why` it ended, for a person. The first reason counts.
  void Await(int peer, std::string why, Deadline::Milliseconds longest) {
    if (Why(peer) == nullptr) ends_.push_back({peer, std::move(why), Deadline::After(longest)});
  }
  // Null: no end is known.
  const std::string* Why(int peer) const {
    const auto end = std::ranges::find(ends_, peer, &End::peer);
    return end == ends_.end() ? nullptr : &end->why;
  }
  void Forget(int peer) {
    std::erase_if(ends_, [peer](const End& end) { return end.peer == peer; });
  }
  // Peers whose time is over, or for which `all_here(peer)` is true.
  template <typename AllHere>
  std::vector<int> Over(AllHere&& all_here) const {
    std::vector<int> peers;
    for (const auto& end : ends_) {
      if (end.deadline.Passed() || all_here(end.peer)) peers.push_back(end.peer);
    }
    return peers;
  }

 private:
  struct End {
    int peer;
    std::string why;
    Deadline deadline;
  };

  std::vector<End> ends_;
};

}  // namespace tutti::side
