#include "interop/torch/csrc/task_queues.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tutti::pytorch {
namespace {

// Key values that stand for no single sender and receiver.
constexpr int kEverybody = -1;
constexpr int kAnybody = -2;
// Key value for the host instead of a device.
constexpr int kHost = -1;

Meeting MeetingOfAll(const GroupIdentity& identity, std::shared_ptr<Gathering> gathering) {
  Meeting meeting;
  meeting.name = identity.name;
  meeting.rank = identity.rank;
  meeting.ranks = identity.ranks;
  meeting.describe_rank = [identity](int rank) { return DescribeRank(identity, rank); };
  meeting.group_ranks.resize(static_cast<std::size_t>(identity.ranks));
  std::iota(meeting.group_ranks.begin(), meeting.group_ranks.end(), 0);
  meeting.gathering = std::move(gathering);
  return meeting;
}

}  // namespace

TaskQueues::TaskQueues(GroupIdentity identity, std::shared_ptr<Board> board)
    : identity_(std::move(identity)),
      board_(std::move(board)),
      gathering_(std::make_shared<Gathering>(identity_, board_)),
      meeting_of_all_(MeetingOfAll(identity_, gathering_)),
      timeout_(std::make_shared<std::atomic<std::chrono::milliseconds>>(identity_.timeout)) {}

std::shared_ptr<TaskQueue> TaskQueues::Make(Meeting meeting, std::shared_ptr<TaskStream> task_stream,
                                            Optional<std::chrono::milliseconds> meeting_timeout) const {
  return std::make_shared<TaskQueue>([meeting = std::move(meeting), task_stream = std::move(task_stream),
                                      meeting_timeout, board = board_,
                                      timeout = timeout_](const std::atomic<bool>& cancelled) mutable {
    meeting.operation_timeout = timeout->load(std::memory_order_relaxed);
    meeting.timeout = meeting_timeout ? *meeting_timeout : meeting.operation_timeout;
    auto communicator = Communicator::Meet(meeting, *board, cancelled);
    if (task_stream != nullptr) {
      task_stream->Open(communicator->get());
      communicator->BeforeEnd([task_stream] { task_stream->Close(); });
    }
    return communicator;
  });
}

template <typename Maker>
std::shared_ptr<TaskQueue> TaskQueues::FindOrMake(const Key& key, const Maker& make) {
  const std::lock_guard lock(mutex_);
  auto& queue = queues_[key];
  if (queue == nullptr) queue = make();
  return queue;
}

// REQUIRES: the lock is held.
int TaskQueues::PlaceOf(c10::Device device) {
  const auto found = std::find(devices_.begin(), devices_.end(), device);
  const auto place = static_cast<int>(found - devices_.begin());
  if (found == devices_.end()) devices_.push_back(device);
  return place;
}

template <typename NewMeeting>
DeviceTaskQueue TaskQueues::FindOrMake(c10::Device device, int from, int to, int tag, const NewMeeting& new_meeting) {
  const std::lock_guard lock(mutex_);
  const auto place = PlaceOf(device);
  const Key key{place, from, to, tag};
  if (const auto found = queues_.find(key); found != queues_.end()) return {found->second, task_streams_.at(key)};
  const auto task_stream = std::make_shared<TaskStream>(device);
  Meeting meeting = new_meeting();
  meeting.name += ", " + c10::DeviceTypeName(device.type(), true);
  if (place > 0) meeting.name += " (device " + std::to_string(place + 1) + " of the group)";
  meeting.device = device.index();
  const auto queue = Make(std::move(meeting), task_stream);
  task_streams_.emplace(key, task_stream);
  queues_.emplace(key, queue);
  return {queue, task_stream};
}

Meeting TaskQueues::MeetingOfTwo(int from, int to, int tag) const {
  auto meeting = meeting_of_all_;
  meeting.name = identity_.name + ", rank " + std::to_string(from) + " to rank " + std::to_string(to) + ", tag " +
                 std::to_string(tag);
  meeting.rank = identity_.rank == from ? 0 : 1;
  meeting.ranks = 2;
  meeting.group_ranks = {from, to};
  return meeting;
}

std::shared_ptr<TaskQueue> TaskQueues::Collectives() {
  return FindOrMake({kHost, kEverybody, kEverybody, 0}, [this] { return Make(meeting_of_all_); });
}

std::shared_ptr<TaskQueue> TaskQueues::PointToPoint(int from, int to, int tag) {
  return FindOrMake({kHost, from, to, tag}, [&] { return Make(MeetingOfTwo(from, to, tag)); });
}

DeviceTaskQueue TaskQueues::Collectives(c10::Device device) {
  return FindOrMake(device, kEverybody, kEverybody, 0, [this] { return meeting_of_all_; });
}

DeviceTaskQueue TaskQueues::PointToPoint(c10::Device device, int from, int to, int tag) {
  return FindOrMake(device, from, to, tag, [&] { return MeetingOfTwo(from, to, tag); });
}

std::shared_ptr<TaskQueue> TaskQueues::WithoutCommunicator(int tag) {
  return FindOrMake({kHost, kAnybody, kAnybody, tag}, [] { return std::make_shared<TaskQueue>(TaskQueue::Maker()); });
}

void TaskQueues::HurryAllBut(const TaskQueue& queue) {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, other] : queues_) {
    if (other.get() != &queue && other->waiting() > 0) other->Hurry();
  }
}

void TaskQueues::Meet(std::chrono::milliseconds timeout) {
  class Nothing : public Task {
    void Run(tuttiComm_t /*comm*/) override {}
  };
  const auto queue =
      FindOrMake({kHost, kEverybody, kEverybody, 0}, [&] { return Make(meeting_of_all_, nullptr, timeout); });
  const auto task = std::make_shared<Nothing>();
  queue->Issue(task);
  queue->Wait(*task);
  if (task->Error() != nullptr) std::rethrow_exception(task->Error());
}

tuttiResult_t TaskQueues::HowFailed() {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, queue] : queues_) {
    if (const auto failure = queue->HowFailed(); failure != tuttiSuccess) return failure;
  }
  return tuttiSuccess;
}

void TaskQueues::Stop() {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, queue] : queues_) queue->Stop();
}

void TaskQueues::Close() {
  std::map<Key, std::shared_ptr<TaskQueue>> all;
  {
    const std::lock_guard lock(mutex_);
    all.swap(queues_);
  }
  for (const auto& [key, queue] : all) queue->Close();
  gathering_->Stop();
}

void TaskQueues::SetTimeout(std::chrono::milliseconds timeout) {
  timeout_->store(timeout, std::memory_order_relaxed);
  limit_of_waits_.store(timeout, std::memory_order_relaxed);
}

}  // namespace tutti::pytorch
