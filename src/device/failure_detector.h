// Watches a rank's kernels from the host: writes what they publish into the flight recorder, where peers read it, and
// turns a wait that makes no progress into a failure that stops them (src/diagnostics/failure_detector.h).
//
// Thread-safety: has its own thread; failure() and Fail from any thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/clocks/running_clock.h"
#include "src/device/device_side.h"
#include "src/diagnostics/failure_detector.h"
#include "src/diagnostics/recorder.h"

namespace tutti::device {

class DeviceFailureDetector {
 public:
  // `outside`: the communicator's own failure, if any. `fail` receives the first failure found here, in the detector's
  // thread. `side` outlives this.
  DeviceFailureDetector(DeviceSide& side, const init::Meeting& meeting, std::function<std::optional<Error>()> outside,
                        std::function<void(const Error&)> fail);
  ~DeviceFailureDetector();
  DeviceFailureDetector(const DeviceFailureDetector&) = delete;
  DeviceFailureDetector& operator=(const DeviceFailureDetector&) = delete;

  // Stops the kernels of this rank and, through the state that peers read, those of all ranks.
  void Fail(const Error& failure);
  // Ends those of this rank, because it wants that.
  void Stop(const Error& stopped);
  // Reads what kernels have published so far, and looks.
  void LookNow();
  // A kernel of this rank has stopped, or is about to, because of a fault that it or this detector found.
  bool Faulted() const;

 private:
  using Clock = RunningClock;

  // An operation that a kernel has begun and that may not have ended.
  struct Running {
    plan::Operation operation;
    std::uint64_t sequence;
    std::uint64_t signature;
    std::uint64_t record;
    std::uint32_t site;
  };

  void Work();
  // Reads what the kernels have published; true if anything is new.
  bool Read();
  std::optional<Error> Look(Clock::duration waited);
  bool Done(const Running& running) const;
  std::vector<int> MayBeAwaited(const Running& running) const;

  DeviceSide& side_;
  diagnostics::FailureDetector failure_detector_;
  diagnostics::Recorder recorder_;
  std::function<std::optional<Error>()> outside_;
  std::function<void(const Error&)> fail_;
  std::map<std::uint64_t, Running> running_;  // by the device's call number
  std::uint64_t seen_ = 0;                    // calls read
  bool untold_ = false;                       // a call may have ended alone, unannounced to other hosts' ranks

  std::mutex mutex_;
  std::condition_variable ending_;
  bool end_ = false;
  std::uint64_t looks_ = 0, wanted_ = 0;  // looks done, and looks requested
  std::thread thread_;                    // last: it uses all of the above
};

}  // namespace tutti::device
