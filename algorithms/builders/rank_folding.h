// How algorithms for powers of two serve other numbers of ranks: the largest power of two of ranks is active, numbered
// 0..active-1. For the n - active surplus ranks, the first ranks form as many pairs: 2i is folded into 2i + 1, which is
// active number i and works for both.
//
// Thread-safety: value type.
#pragma once

#include <bit>
#include <vector>

namespace tutti::builders {

class RankFolding {
 public:
  explicit RankFolding(int n) : n_(n), active_(static_cast<int>(std::bit_floor(static_cast<unsigned>(n)))) {}

  int active() const { return active_; }
  bool IsFolded(int rank) const { return rank < 2 * pairs() && rank % 2 == 0; }
  int NumberOf(int rank) const { return rank < 2 * pairs() ? rank / 2 : rank - pairs(); }
  int RankOf(int number) const { return number < pairs() ? 2 * number + 1 : number + pairs(); }
  // The rank that `rank` works for besides itself; -1: none.
  int FoldedInto(int rank) const { return rank < 2 * pairs() && rank % 2 == 1 ? rank - 1 : -1; }

  // The blocks of active ranks first..first+count-1 and of those they work for, in order.
  std::vector<int> Blocks(int first, int count) const {
    const int begin = RankOf(first) - (first < pairs() ? 1 : 0);
    const int end = RankOf(first + count - 1) + 1;
    std::vector<int> blocks;
    for (int b = begin; b < end; ++b) blocks.push_back(b);
    return blocks;
  }

 private:
  int pairs() const { return n_ - active_; }

  int n_;
  int active_;
};

}  // namespace tutti::builders
