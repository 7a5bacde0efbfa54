// A communicator with an owner, and how its ranks meet: over a board that all of them can write on and read (c10d's
// Store).
//
// Nobody enters the library before every rank is known to be there. So the part that cannot be interrupted is short,
// and who did not come is known by rank. Nor does anybody wait inside the board: a c10d Store serves one caller at a
// time, and a rank that waited in it for a key would keep its own other threads from writing the key that the other
// side waits for. So boards are polled.
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

namespace tutti::pytorch {

class Board {
 public:
  virtual ~Board() = default;
  virtual void Write(const std::string& key, const std::string& value) = 0;
  virtual bool Has(const std::string& key) = 0;
  // REQUIRES: it has the key.
  virtual std::string Read(const std::string& key) = 0;
};

struct Meeting {
  std::string name;  // of the communicator: for the board's keys, and for people
  int rank = 0;
  int ranks = 1;
  int device = TUTTI_DEVICE_NONE;
  std::chrono::milliseconds timeout{0};           // for the meeting, and for each operation to stand still
  std::function<std::string(int)> describe_rank;  // what a person calls a rank of this communicator
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
