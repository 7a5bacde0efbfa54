// Every sleep of a thread that drives an operation, and which thread ends it. This page has the whole argument.
//
// A thread sleeps only after a long wait. It waits for one of the events below. The thread that causes the event rings
// *after* it has made the event visible:
//
//   a slot was filled or emptied by a rank of this host        that rank, after each step         Run::Execute
//   a slot from another host has landed, or one to it is sent  the thread of this rank that drove NetworkEngine
//                                                              the network
//   something can be read from, or written to, the network     the system: the sleep is a poll()  NetworkEngine::Sleep
//   the last helper thread has done its share                  that helper                        DriveTogether
//   a rank of this host has failed, or was aborted             the thread that reports it         FailureDetector::Fail
//   a GPU's proxy has something new to do                      the thread that gives it work      DeviceProxy::Wake
//
// No thread can ring for some events: a dead process, a time-out, and a failure on another host. A sleeper checks for
// those by the clock, at least every 50 ms. A thread that drives several communicators only naps (drive.h).
//
// **No ring is lost.** The awaited word and the count of sleepers form a Dekker pair: a publisher stores the word and
// then loads the count; a sleeper raises the count and then looks at the word once more. So one of the two sees the
// other. To save a full fence on every publish, the sleeper makes every running thread of the registered processes
// execute one (membarrier, global expedited). Each rank publishes in its control block whether its process is
// registered; where one is not, sleeps are short instead.
//   A ring that comes between that last look and the sleep is kept. On one host it changes the doorbell's number, which
// the futex compares. Between hosts it makes the rank's socket readable. The thread that reads the socket
// passes the ring on to every other thread of the rank that has set its alarm by then; each of those has a descriptor
// of its own (network.h).
//   No sleeper waits for work that was left undone. Before a thread sleeps, it moves, under the network's lock, all
// slots that any thread of its rank has filled. A thread that finishes does the same for what it still has to send or
// to acknowledge.
//
// Thread-safety: all functions may be called from any thread. One Sleeper may be used by several threads at once.
#pragma once

#include <atomic>
#include <chrono>

#include "transports/progress/network.h"
#include "transports/shm/fabric.h"

namespace tutti::host {

void WakeAll(shm::Fabric& fabric);

// `sleepers`: fabric.sleepers(), which a caller in a hurry keeps at hand.
inline void WakeSleepers(shm::Fabric& fabric, const std::atomic<std::uint32_t>& sleepers) {
  // Keeps the compiler from moving the load before the publishing stores; the sleeper's membarrier binds the processor.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_relaxed) != 0) [[unlikely]]
    WakeAll(fabric);
}
inline void WakeSleepers(shm::Fabric& fabric) { WakeSleepers(fabric, fabric.sleepers()); }

class Sleeper {
 public:
  // `network`: the fabric's; null where all ranks are on one host.
  Sleeper(shm::Fabric& fabric, progress::NetworkEngine* network);

  // Sleeps until rung, or `limit` has passed, or `ready()` is true after the alarm was set. False: there was no ring.
  template <typename Ready>
  bool Sleep(std::chrono::microseconds limit, Ready&& ready) {
    const auto alarm = SetAlarm();
    const bool rung = ready() || Wait(alarm, limit);
    ClearAlarm(alarm);
    return rung;
  }

 private:
  struct Alarm {
    std::uint32_t bell = 0;  // the doorbell's number
    int own_bell = 0;        // between hosts: NetworkEngine's
  };
  Alarm SetAlarm();
  bool Wait(const Alarm& alarm, std::chrono::microseconds limit);
  void ClearAlarm(const Alarm& alarm);
  bool AllHearBarriers() const;

  shm::Fabric& fabric_;
  progress::NetworkEngine* const network_;
  std::atomic<bool> guarded_{false};  // every process of the host executes our barriers; stays true
};

}  // namespace tutti::host
