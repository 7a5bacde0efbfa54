#include "bench/backends/capture.h"

#include <barrier>
#include <memory>
#include <mutex>
#include <vector>

namespace tutti::bench {
namespace {

// Where the ranks of this process meet. A rank that fails before it arrives leaves the others waiting; the bench learns
// of the failure and ends the process.
class Meeting {
 public:
  explicit Meeting(int threads) : barrier_(threads) {}

  // Call before all ranks have arrived. The first caller is the leader.
  int Take() {
    const std::lock_guard lock(mutex_);
    return taken_++;
  }
  void Wait() { barrier_.arrive_and_wait(); }

  std::shared_ptr<void> begun;               // set by the leader
  std::vector<std::shared_ptr<void>> ended;  // by number; set by all but the leader

 private:
  std::barrier<> barrier_;
  std::mutex mutex_;
  int taken_ = 0;
};

// The meeting shared by the next `threads` callers.
std::shared_ptr<Meeting> NextMeeting(int threads) {
  static std::mutex mutex;
  static std::shared_ptr<Meeting> open;
  static int asked = 0;
  const std::lock_guard lock(mutex);
  if (asked == 0) {
    open = std::make_shared<Meeting>(threads);
    open->ended.resize(static_cast<std::size_t>(threads));
  }
  auto meeting = open;
  asked = (asked + 1) % threads;
  return meeting;
}

}  // namespace

void MeetThreads(int threads) { NextMeeting(threads)->Wait(); }

BoundCall CaptureAlone(const Gpu& gpu, const std::function<void()>& call, int calls) {
  gpu.BeginCapture();
  for (int i = 0; i < calls; ++i) call();
  return {gpu.EndCapture(), [&gpu] { gpu.Synchronize(); }};
}

BoundCall CaptureTogether(const Gpu& gpu, const std::function<void()>& call, int calls, int threads) {
  if (threads == 1) return CaptureAlone(gpu, call, calls);
  const auto meeting = NextMeeting(threads);
  const int number = meeting->Take();
  if (number == 0) {
    gpu.BeginCapture();
    meeting->begun = gpu.Mark();
  }
  meeting->Wait();
  if (number != 0) gpu.Follow(meeting->begun);
  for (int i = 0; i < calls; ++i) call();
  if (number != 0) meeting->ended[static_cast<std::size_t>(number)] = gpu.Mark();
  meeting->Wait();
  std::function<void()> replay = [] {};
  if (number == 0) {
    for (std::size_t i = 1; i < meeting->ended.size(); ++i) gpu.Follow(meeting->ended[i]);
    replay = gpu.EndCapture();
  }
  meeting->Wait();
  return {replay, [&gpu, meeting, number] {
            if (number == 0) gpu.Synchronize();
            meeting->Wait();
          }};
}

}  // namespace tutti::bench
