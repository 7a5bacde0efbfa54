// The objects that two racing calls share: a communicator in one of its states, streams, a window, an operator.
//
// Thread-safety: the trial's own thread creates and destroys it; the racing threads share the members.
#pragma once

#include <array>
#include <atomic>
#include <string_view>
#include <thread>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::races {

enum class State {
  one,               // ready, of one rank
  two,               // ready, of two ranks of this process; the other rank does nothing
  queued,            // ... and an operation on a stream waits for the other rank
  calling,           // ... and a third thread is inside an operation that waits for it
  joining,           // a third thread is inside tuttiCommInitRank, and the other rank never joins
  joining_later,     // likewise, nonblocking
  nonblocking,       // ready, of two ranks
  nonblocking_busy,  // ... and an operation waits for the other rank
  splitting,         // a third thread is inside tuttiCommSplit, and the other rank never splits
  revoked,
  finalised,
  destroyed,
  aborted,
};
inline constexpr int kStates = 13;
std::string_view NameOf(State state);

// Random numbers derived from a seed.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  std::uint64_t Next();
  std::size_t Below(std::size_t limit) { return static_cast<std::size_t>(Next() % limit); }

 private:
  std::uint64_t state_;
};

// One rank's buffers and handles.
struct Side {
  tuttiComm_t place = nullptr;  // where a joining thread may store a handle at any time
  tuttiComm_t comm() const { return __atomic_load_n(&place, __ATOMIC_ACQUIRE); }
  int rank = 0;
  std::array<float, 64> in{}, out{};
};

class World {
 public:
  static constexpr std::size_t kWindowBytes = 4096;

  explicit World(State state);
  // Ends everything that still waits, and frees everything.
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Aborts all communicators, so that every call returns. Callable from any thread, repeatedly.
  void Rescue();
  // Where a call may store a new handle; Rescue() finds it there.
  tuttiComm_t* NewComm();
  static tuttiConfig_t Config(bool blocking);

  std::array<Side, 2> sides;
  int nranks = 2;
  std::array<tuttiStream_t, 2> streams{};
  std::atomic<tuttiWindow_t> window{nullptr};
  std::atomic<int> op{0};  // 0: none was made
  void* memory = nullptr;

 private:
  void Begin(State state);
  void JoinBoth(bool blocking);

  std::thread third_;
  std::array<tuttiComm_t, 8> made_{};
  std::atomic<std::size_t> made_count_{0};
};

}  // namespace tutti::races
