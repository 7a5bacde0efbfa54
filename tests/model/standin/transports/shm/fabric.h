// Replaces the library's fabric in models: control blocks of ranks that are threads, without connections, processes or
// memory files. It has the functions that the checked sources call, under the same names.
//
// Thread-safety: getters may be called from any thread.
#pragma once

#include <memory>
#include <vector>

#include "transports/ring/control_block.h"

namespace tutti::shm {

class Fabric {
 public:
  // `blocks`: those of all ranks, which share one host. `bells`: the ranks' bells, if there are other hosts, too.
  Fabric(int rank, std::vector<ring::ControlBlock*> blocks, std::vector<int> bells = {})
      : rank_(rank), bells_(std::move(bells)), blocks_(std::move(blocks)) {
    for (int r = 0; r < static_cast<int>(blocks_.size()); ++r) local_.push_back(r);
    bells_.resize(blocks_.size(), -1);
  }

  int rank() const { return rank_; }
  int nranks() const { return static_cast<int>(blocks_.size()); }
  const std::vector<int>& local() const { return local_; }
  bool is_local(int) const { return true; }
  ring::ControlBlock& control(int rank) const { return *blocks_[static_cast<std::size_t>(rank)]; }
  std::atomic<std::uint32_t>& sleepers() const { return control(local_.front()).sleepers; }
  int bell(int rank) const { return bells_[static_cast<std::size_t>(rank)]; }
  int hearing() const { return bell(rank_); }

 private:
  int rank_;
  std::vector<int> local_;
  std::vector<int> bells_;
  std::vector<ring::ControlBlock*> blocks_;
};

}  // namespace tutti::shm
