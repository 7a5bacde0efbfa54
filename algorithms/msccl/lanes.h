// Where a program's steps stand in the lanes of a rank, and each dependency in these terms: a step of several chunks is
// several steps of its lane, and one that only waits is none.
//
// Thread-safety: none; one owner.
#pragma once

#include <map>
#include <vector>

#include "algorithms/msccl/text.h"

namespace tutti::msccl {

class ProgramLanes {
 public:
  // REQUIRES: rank outlives this.
  explicit ProgramLanes(const ProgramRank& rank);

  // The steps that the first chunk of a step waits for, besides the earlier ones in its lane.
  std::vector<schedule::After> Awaited(int block, int step);

 private:
  // By lane, the last step of it that must be done.
  using Steps = std::map<int, int>;

  Steps Before(int block, int step, int depth);
  const Steps& Done(int block, int step, int depth);
  void Add(Steps& steps, const Steps& more, const Instruction& instruction);

  const ProgramRank& rank_;
  std::vector<std::vector<int>> first_;  // by thread block and step: its first chunk's place in the lane
  std::map<std::pair<int, int>, Steps> done_;
  long waits_ = 0;
};

}  // namespace tutti::msccl
