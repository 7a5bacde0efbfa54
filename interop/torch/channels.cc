#include "interop/torch/channels.h"

#include <utility>

namespace tutti::pytorch {
namespace {

// Keys that are no sender and receiver.
constexpr int kEverybody = -1;
constexpr int kAnybody = -2;

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

std::shared_ptr<Channel> Channels::Make(Meeting meeting) const {
  meeting.timeout = identity_.timeout;
  return std::make_shared<Channel>([meeting = std::move(meeting), board = board_](const std::atomic<bool>& cancelled) {
    return Communicator::Meet(meeting, *board, cancelled);
  });
}

template <typename Maker>
std::shared_ptr<Channel> Channels::FindOrMake(const Key& key, const Maker& make) {
  const std::lock_guard lock(mutex_);
  auto& channel = channels_[key];
  if (channel == nullptr) channel = make();
  return channel;
}

std::shared_ptr<Channel> Channels::Collectives() {
  return FindOrMake({kEverybody, kEverybody, 0}, [this] {
    Meeting meeting;
    meeting.name = identity_.name;
    meeting.rank = identity_.rank;
    meeting.ranks = identity_.ranks;
    meeting.describe_rank = [identity = identity_](int rank) { return DescribeRank(identity, rank); };
    return Make(std::move(meeting));
  });
}

std::shared_ptr<Channel> Channels::PointToPoint(int from, int to, int tag) {
  return FindOrMake({from, to, tag}, [&] {
    Meeting meeting;
    meeting.name = identity_.name + ", rank " + std::to_string(from) + " to rank " + std::to_string(to) + ", tag " +
                   std::to_string(tag);
    meeting.rank = identity_.rank == from ? 0 : 1;
    meeting.ranks = 2;
    meeting.describe_rank = [sender = DescribeRank(identity_, from), receiver = DescribeRank(identity_, to)](int rank) {
      return rank == 0 ? sender : receiver;
    };
    return Make(std::move(meeting));
  });
}

std::shared_ptr<Channel> Channels::WithoutCommunicator(int tag) {
  return FindOrMake({kAnybody, kAnybody, tag}, [] { return std::make_shared<Channel>(Channel::Maker()); });
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
