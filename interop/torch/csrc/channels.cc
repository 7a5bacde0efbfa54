#include "interop/torch/csrc/channels.h"

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
  meeting.timeout = identity.timeout;
  meeting.describe_rank = [identity](int rank) { return DescribeRank(identity, rank); };
  meeting.group_ranks.resize(static_cast<std::size_t>(identity.ranks));
  std::iota(meeting.group_ranks.begin(), meeting.group_ranks.end(), 0);
  meeting.gathering = std::move(gathering);
  return meeting;
}

}  // namespace

Channels::Channels(GroupIdentity identity, std::shared_ptr<Board> board)
    : identity_(std::move(identity)),
      board_(std::move(board)),
      gathering_(std::make_shared<Gathering>(identity_.name, identity_.rank, identity_.ranks, board_)),
      meeting_of_all_(MeetingOfAll(identity_, gathering_)),
      timeout_(std::make_shared<std::atomic<std::chrono::milliseconds>>(identity_.timeout)) {}

std::string DescribeRank(const GroupIdentity& identity, int rank) {
  auto text = "rank " + std::to_string(rank);
  const auto at = static_cast<std::size_t>(rank);
  if (at < identity.global_ranks.size() && identity.global_ranks[at] != rank) {
    text += " (global rank " + std::to_string(identity.global_ranks[at]) + ")";
  }
  return text;
}

std::shared_ptr<Channel> Channels::Make(Meeting meeting, std::shared_ptr<Lane> lane) const {
  return std::make_shared<Channel>([meeting = std::move(meeting), lane = std::move(lane), board = board_,
                                    timeout = timeout_](const std::atomic<bool>& cancelled) mutable {
    meeting.timeout = timeout->load(std::memory_order_relaxed);
    auto communicator = Communicator::Meet(meeting, *board, cancelled);
    if (lane != nullptr) {
      lane->Open(communicator->get());
      communicator->BeforeEnd([lane] { lane->Close(); });
    }
    return communicator;
  });
}

template <typename Maker>
std::shared_ptr<Channel> Channels::FindOrMake(const Key& key, const Maker& make) {
  const std::lock_guard lock(mutex_);
  auto& channel = channels_[key];
  if (channel == nullptr) channel = make();
  return channel;
}

// REQUIRES: the lock is held.
int Channels::PlaceOf(c10::Device device) {
  const auto found = std::find(devices_.begin(), devices_.end(), device);
  const auto place = static_cast<int>(found - devices_.begin());
  if (found == devices_.end()) devices_.push_back(device);
  return place;
}

template <typename NewMeeting>
DeviceChannel Channels::FindOrMake(c10::Device device, int from, int to, int tag, const NewMeeting& new_meeting) {
  const std::lock_guard lock(mutex_);
  const auto place = PlaceOf(device);
  const Key key{place, from, to, tag};
  if (const auto found = channels_.find(key); found != channels_.end()) return {found->second, lanes_.at(key)};
  const auto lane = std::make_shared<Lane>(device);
  Meeting meeting = new_meeting();
  meeting.name += ", " + c10::DeviceTypeName(device.type(), true);
  if (place > 0) meeting.name += " (device " + std::to_string(place + 1) + " of the group)";
  meeting.device = device.index();
  const auto channel = Make(std::move(meeting), lane);
  lanes_.emplace(key, lane);
  channels_.emplace(key, channel);
  return {channel, lane};
}

Meeting Channels::MeetingOfTwo(int from, int to, int tag) const {
  auto meeting = meeting_of_all_;
  meeting.name = identity_.name + ", rank " + std::to_string(from) + " to rank " + std::to_string(to) + ", tag " +
                 std::to_string(tag);
  meeting.rank = identity_.rank == from ? 0 : 1;
  meeting.ranks = 2;
  meeting.group_ranks = {from, to};
  return meeting;
}

std::shared_ptr<Channel> Channels::Collectives() {
  return FindOrMake({kHost, kEverybody, kEverybody, 0}, [this] { return Make(meeting_of_all_); });
}

std::shared_ptr<Channel> Channels::PointToPoint(int from, int to, int tag) {
  return FindOrMake({kHost, from, to, tag}, [&] { return Make(MeetingOfTwo(from, to, tag)); });
}

DeviceChannel Channels::Collectives(c10::Device device) {
  return FindOrMake(device, kEverybody, kEverybody, 0, [this] { return meeting_of_all_; });
}

DeviceChannel Channels::PointToPoint(c10::Device device, int from, int to, int tag) {
  return FindOrMake(device, from, to, tag, [&] { return MeetingOfTwo(from, to, tag); });
}

std::shared_ptr<Channel> Channels::WithoutCommunicator(int tag) {
  return FindOrMake({kHost, kAnybody, kAnybody, tag}, [] { return std::make_shared<Channel>(Channel::Maker()); });
}

void Channels::HurryAllBut(const Channel& channel) {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, other] : channels_) {
    if (other.get() != &channel && other->waiting() > 0) other->Hurry();
  }
}

void Channels::Stop() {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, channel] : channels_) channel->Stop();
}

void Channels::Close() {
  std::map<Key, std::shared_ptr<Channel>> all;
  {
    const std::lock_guard lock(mutex_);
    all.swap(channels_);
  }
  for (const auto& [key, channel] : all) channel->Close();
  gathering_->Stop();
}

void Channels::SetTimeout(std::chrono::milliseconds timeout) {
  timeout_->store(timeout, std::memory_order_relaxed);
  limit_of_waits_.store(timeout, std::memory_order_relaxed);
}

}  // namespace tutti::pytorch
