// User memory that devices may read while it is registered: slots that refer to it are sent in place.
//
// Only explicit registrations are kept. A cache of the memory that slots happened to refer to would have to learn when
// the program unmaps those pages: a device goes on reading the old ones, whatever uses them by then, while the same
// addresses mean new ones. A hook of munmap for that purpose breaks with the next allocator. Data elsewhere is copied
// once instead.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "transports/verbs/port.h"

namespace tutti::verbs {

using Rails = std::vector<std::unique_ptr<VerbsPort>>;

// A range of memory, on every rail.
class RailRegions {
 public:
  RailRegions() = default;
  // Throws tuttiSystemError.
  RailRegions(const Rails& rails, const std::byte* begin, std::size_t bytes, bool remote);

  explicit operator bool() const { return !regions_.empty(); }
  std::uint32_t local_key(std::size_t rail) const { return regions_[rail]->lkey; }
  std::vector<std::uint32_t> remote_keys() const;

 private:
  std::vector<MemoryRegion> regions_;
};

// Ranges that may overlap or be the same, each counted. T: the value of a range.
template <typename T>
class RangeMap {
 public:
  // The range's T if it is there, counted once more; otherwise null.
  T* Find(const std::byte* begin, std::size_t bytes) {
    const auto found = ranges_.find({begin, bytes});
    if (found == ranges_.end()) return nullptr;
    ++found->second.users;
    return &found->second.value;
  }
  void Add(const std::byte* begin, std::size_t bytes, T value) {
    ranges_.emplace(Range{begin, bytes}, Entry{std::move(value), 1});
    if (bytes > longest_) longest_ = bytes;
  }
  // Removes one user; the last one removes the range. Ignores unknown ranges.
  void Remove(const std::byte* begin, std::size_t bytes) {
    const auto found = ranges_.find({begin, bytes});
    if (found != ranges_.end() && --found->second.users == 0) ranges_.erase(found);
    if (ranges_.empty()) longest_ = 0;
  }
  // The value of a range that holds all of these bytes; null if there is none.
  const T* Holding(const std::byte* begin, std::size_t bytes) const {
    if (ranges_.empty()) return nullptr;
    // Ranges that begin before it, nearest first, as far back as the longest range reaches.
    for (auto at = ranges_.upper_bound({begin, ~std::size_t{0}}); at != ranges_.begin();) {
      --at;
      const auto before = static_cast<std::size_t>(begin - at->first.first);
      if (before >= longest_ && before > 0) break;
      if (before <= at->first.second && bytes <= at->first.second - before) return &at->second.value;
    }
    return nullptr;
  }
  bool empty() const { return ranges_.empty(); }

 private:
  using Range = std::pair<const std::byte*, std::size_t>;
  struct Entry {
    T value;
    int users;
  };

  std::map<Range, Entry> ranges_;
  std::size_t longest_ = 0;
};

}  // namespace tutti::verbs
