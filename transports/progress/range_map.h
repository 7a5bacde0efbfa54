// Ranges of memory, and a value for each: what a transport knows about the memory that slots may refer to.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstddef>
#include <map>
#include <utility>

namespace tutti::progress {

// The ranges may overlap or be the same; each is counted. T: the value of a range.
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

}  // namespace tutti::progress
