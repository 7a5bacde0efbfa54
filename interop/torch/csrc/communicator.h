// A communicator with an owner, and how its ranks meet: over the group's board (board.h), under the token of the
// group's completed gathering.
//
// No rank enters the library before every rank is known to have arrived. This keeps the uninterruptible part short and
// identifies a missing rank by number. If a rank dies before it arrives, ranks on its host notice within a second.
//
// Thread-safety: Stop may be called from any thread at any time; all else belongs to one thread at a time.
#pragma once

#include <tutti/tutti.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "interop/torch/csrc/ops/gathering.h"

namespace tutti::pytorch {

struct Meeting {
  std::string name;  // of the communicator: for the board's keys and messages
  int rank = 0;
  int ranks = 1;
  int device = TUTTI_DEVICE_NONE;
  std::chrono::milliseconds timeout{0};            // for the meeting
  std::chrono::milliseconds operation_timeout{0};  // for an operation without progress
  std::function<std::string(int)> describe_rank;  // the name of a rank of the group, for messages
  std::vector<int> group_ranks;                   // the group rank of each rank of this communicator
  std::shared_ptr<Gathering> gathering;           // of the group
};

// The communicator and stream that library calls use. For host memory there is no stream, and calls block.
struct On {
  tuttiComm_t comm;
  tuttiStream_t stream = nullptr;
};

class Communicator {
 public:
  // Waits for all ranks. Throws Failure if they do not come in time, or once `cancelled` is set.
  static std::unique_ptr<Communicator> Meet(const Meeting& meeting, Board& board, const std::atomic<bool>& cancelled);

  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  tuttiComm_t get() const { return comm_; }

  // Permanently stops whatever runs on it, here and on the other ranks.
  void Stop();
  // `last` is called before the communicator is freed. REQUIRES: `last` does not throw.
  void BeforeEnd(std::function<void()> last) { before_end_ = std::move(last); }

 private:
  explicit Communicator(tuttiComm_t comm) : comm_(comm) {}

  const tuttiComm_t comm_;
  std::function<void()> before_end_;
};

}  // namespace tutti::pytorch
