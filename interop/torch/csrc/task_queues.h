// The queues of one process group: one for its collectives, and one for each (sender, receiver, tag), made at its
// first send or receive.
//
// Why sends and receives have their own communicators. The library runs one call at a time on a communicator, and a
// send lasts until it is received. On a shared communicator a lone isend would block the collectives behind it, and two
// ranks that both send to each other first would deadlock. With one queue per direction and tag, each is matched in
// its own order and none waits for another, as c10d promises. A communicator of two ranks costs a few milliseconds and
// a few kilobytes.
//
// Devices. Each device used with the group has its own queues, with communicators of that device; the n-th device
// that a rank uses pairs with the other ranks' n-th. The queues for host memory are independent of them.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "interop/torch/csrc/task_queue.h"
#include "interop/torch/csrc/task_stream.h"

namespace tutti::pytorch {

struct DeviceTaskQueue {
  std::shared_ptr<TaskQueue> queue;
  std::shared_ptr<TaskStream> task_stream;
};

class TaskQueues : public Siblings {
 public:
  TaskQueues(GroupIdentity identity, std::shared_ptr<Board> board);

  std::shared_ptr<TaskQueue> Collectives();
  std::shared_ptr<TaskQueue> PointToPoint(int from, int to, int tag);
  // The same for a device's memory.
  DeviceTaskQueue Collectives(c10::Device device);
  DeviceTaskQueue PointToPoint(c10::Device device, int from, int to, int tag);
  // For tasks that only wait for other tasks.
  std::shared_ptr<TaskQueue> WithoutCommunicator(int tag);

  void HurryAllBut(const TaskQueue& queue) override;
  std::chrono::milliseconds LimitOfWaits() const override { return limit_of_waits_.load(std::memory_order_relaxed); }
  // Makes the communicator of the host's collectives now, in this thread, instead of in their first operation. Throws
  // Failure if not all ranks do the same within `timeout`. REQUIRES: no other call was made yet.
  void Meet(std::chrono::milliseconds timeout);
  // Permanently stops everything that runs in the group.
  void Stop();
  // The first failure of a communicator (TaskQueue::HowFailed); tuttiSuccess: none.
  tuttiResult_t HowFailed();
  void Close();

  const GroupIdentity& identity() const { return identity_; }
  const Meeting& meeting_of_all() const { return meeting_of_all_; }
  // Applies to communicators made later, and to waits in existing ones.
  void SetTimeout(std::chrono::milliseconds timeout);

 private:
  using Key = std::tuple<int, int, int, int>;  // index of the device in devices_, or kHost; from, to, tag

  Meeting MeetingOfTwo(int from, int to, int tag) const;
  // The ranks have `meeting_timeout` to meet; null: the group's timeout.
  std::shared_ptr<TaskQueue> Make(Meeting meeting, std::shared_ptr<TaskStream> task_stream = nullptr,
                                  Optional<std::chrono::milliseconds> meeting_timeout = {}) const;
  template <typename Maker>
  std::shared_ptr<TaskQueue> FindOrMake(const Key& key, const Maker& make);
  int PlaceOf(c10::Device device);
  template <typename NewMeeting>
  DeviceTaskQueue FindOrMake(c10::Device device, int from, int to, int tag, const NewMeeting& new_meeting);

  const GroupIdentity identity_;
  const std::shared_ptr<Board> board_;
  const std::shared_ptr<Gathering> gathering_;
  const Meeting meeting_of_all_;
  // Relaxed: no other data depends on this number. Shared with the queues.
  const std::shared_ptr<std::atomic<std::chrono::milliseconds>> timeout_;
  std::atomic<std::chrono::milliseconds> limit_of_waits_{std::chrono::milliseconds(0)};
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<TaskQueue>> queues_;
  std::map<Key, std::shared_ptr<TaskStream>> task_streams_;  // of the queues that have one
  std::vector<c10::Device> devices_;                         // in the order of their first use
};

}  // namespace tutti::pytorch
