#include "interop/torch/channels.h"

#include <algorithm>
#include <utility>

namespace tutti::pytorch {
namespace {

// Keys that are no sender and receiver.
constexpr int kEverybody = -1;
constexpr int kAnybody = -2;
// And no device.
constexpr int kHost = -1;

}  // namespace

Channels::Channels(GroupIdentity identity, std::shared_ptr<Board> board)
    : identity_(std::move(identity)), board_(std::move(board)) {}

std::string DescribeRank(const GroupIdentity& identity, int rank) {
  auto text = "rank " + std::to_string(rank);
  const auto at = static_cast<std::size_t>(rank);
  if (at < identity.global_ranks.size() && identity.global_ranks[at] != rank) {
    text += " (global rank " + std::to_string(identity.global_ranks[at]) + ")";
  }
  return text;
}

std::shared_ptr<Channel> Channels::Make(Meeting meeting, std::shared_ptr<Lane> lane) const {
  meeting.timeout = identity_.timeout;
  return std::make_shared<Channel>(
      [meeting = std::move(meeting), lane = std::move(lane), board = board_](const std::atomic<bool>& cancelled) {
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

Meeting Channels::MeetingOfAll() const {
  Meeting meeting;
  meeting.name = identity_.name;
  meeting.rank = identity_.rank;
  meeting.ranks = identity_.ranks;
  meeting.describe_rank = [identity = identity_](int rank) { return DescribeRank(identity, rank); };
  return meeting;
}

Meeting Channels::MeetingOfTwo(int from, int to, int tag) const {
  Meeting meeting;
  meeting.name = identity_.name + ", rank " + std::to_string(from) + " to rank " + std::to_string(to) + ", tag " +
                 std::to_string(tag);
  meeting.rank = identity_.rank == from ? 0 : 1;
  meeting.ranks = 2;
  meeting.describe_rank = [sender = DescribeRank(identity_, from), receiver = DescribeRank(identity_, to)](int rank) {
    return rank == 0 ? sender : receiver;
  };
  return meeting;
}

std::shared_ptr<Channel> Channels::Collectives() {
  return FindOrMake({kHost, kEverybody, kEverybody, 0}, [this] { return Make(MeetingOfAll()); });
}

std::shared_ptr<Channel> Channels::PointToPoint(int from, int to, int tag) {
  return FindOrMake({kHost, from, to, tag}, [&] { return Make(MeetingOfTwo(from, to, tag)); });
}

DeviceChannel Channels::Collectives(c10::Device device) {
  return FindOrMake(device, kEverybody, kEverybody, 0, [this] { return MeetingOfAll(); });
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

void Channels::Close() {
  std::map<Key, std::shared_ptr<Channel>> all;
  {
    const std::lock_guard lock(mutex_);
    all.swap(channels_);
  }
  for (const auto& [key, channel] : all) channel->Close();
}

}  // namespace tutti::pytorch
