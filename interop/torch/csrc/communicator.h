// A communicator with an owner, and how its ranks meet: over the group's board (board.h), below the token of the
// group's gathering, once that is complete.
//
// No rank enters the library before every rank is known to be there. So the part that cannot be interrupted is short,
// and a rank that does not come is known by its number. If a rank dies before it comes, the others see that within a
// second if its process is on their host.
//
// Thread-safety: Stop may be called from any thread at any time; the rest belongs to one thread at a time.
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
  std::string name;  // of the communicator: for the board's keys, and for people
  int rank = 0;
  int ranks = 1;
  int device = TUTTI_DEVICE_NONE;
  std::chrono::milliseconds timeout{0};           // for the meeting, and for each operation to stand still
  std::function<std::string(int)> describe_rank;  // the name of a rank of the group, for people
  std::vector<int> group_ranks;                   // what each rank of this communicator is in the group
  std::shared_ptr<Gathering> gathering;           // of the group
};

// What calls of the library are made on. Host memory: no stream, and who calls waits.
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

  // Ends whatever is running on it, here and on the other ranks, for good.
  void Stop();
  // `last` is called before it is freed. REQUIRES: it throws nothing.
  void BeforeEnd(std::function<void()> last) { before_end_ = std::move(last); }

 private:
  explicit Communicator(tuttiComm_t comm) : comm_(comm) {}

  const tuttiComm_t comm_;
  std::function<void()> before_end_;
};

}  // namespace tutti::pytorch
