// The channels of one process group: one for its collectives, and one for each (sender, receiver, tag), made at its
// first send or receive.
//
// Why sends and receives have communicators of their own. The library's calls on one communicator run one at a time,
// and a send lasts until it is taken: a lone isend would hold up the collectives behind it, and two ranks that send to
// each other first and receive then would wait for ever. With one channel a direction each is matched in its own order,
// and by its own tag, and nothing waits for anything else: what c10d promises. A communicator of two ranks takes some
// milliseconds to make and a few kilobytes.
//
// Devices. Each device that the group is used with has channels of its own, with communicators of that device; the n-th
// one that a rank uses goes with the n-th of the others. What is for the host's memory is not touched by it.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "interop/torch/csrc/channel.h"
#include "interop/torch/csrc/lane.h"

namespace tutti::pytorch {

struct GroupIdentity {
  std::string name;
  int rank = 0;
  int ranks = 1;
  std::chrono::milliseconds timeout{0};
  std::vector<std::int64_t> global_ranks;  // of this group's ranks, in the whole job; empty: not known
};

struct DeviceChannel {
  std::shared_ptr<Channel> channel;
  std::shared_ptr<Lane> lane;
};

// "rank 1", and where the whole job has another number for it, "rank 1 (global rank 3)".
std::string DescribeRank(const GroupIdentity& identity, int rank);

class Channels : public Siblings {
 public:
  Channels(GroupIdentity identity, std::shared_ptr<Board> board);

  std::shared_ptr<Channel> Collectives();
  std::shared_ptr<Channel> PointToPoint(int from, int to, int tag);
  // The same of a device's memory.
  DeviceChannel Collectives(c10::Device device);
  DeviceChannel PointToPoint(c10::Device device, int from, int to, int tag);
  // For tasks that only wait for others' tasks.
  std::shared_ptr<Channel> WithoutCommunicator(int tag);

  void HurryAllBut(const Channel& channel) override;
  std::chrono::milliseconds LimitOfWaits() const override { return limit_of_waits_.load(std::memory_order_relaxed); }
  // Ends everything that runs in the group, for good.
  void Stop();
  void Close();

  const GroupIdentity& identity() const { return identity_; }
  Board& board() const { return *board_; }
  const Meeting& meeting_of_all() const { return meeting_of_all_; }
  // For communicators that are made later, and for waits in those that exist.
  void SetTimeout(std::chrono::milliseconds timeout);

 private:
  using Key = std::tuple<int, int, int, int>;  // the device's place among the group's, or kHost; from, to, tag

  Meeting MeetingOfTwo(int from, int to, int tag) const;
  std::shared_ptr<Channel> Make(Meeting meeting, std::shared_ptr<Lane> lane = nullptr) const;
  template <typename Maker>
  std::shared_ptr<Channel> FindOrMake(const Key& key, const Maker& make);
  int PlaceOf(c10::Device device);
  template <typename NewMeeting>
  DeviceChannel FindOrMake(c10::Device device, int from, int to, int tag, const NewMeeting& new_meeting);

  const GroupIdentity identity_;
  const std::shared_ptr<Board> board_;
  const std::shared_ptr<Gathering> gathering_;
  const Meeting meeting_of_all_;
  // Relaxed: a number on which no other data depends. The channels have it, too.
  const std::shared_ptr<std::atomic<std::chrono::milliseconds>> timeout_;
  std::atomic<std::chrono::milliseconds> limit_of_waits_{std::chrono::milliseconds(0)};
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<Channel>> channels_;
  std::map<Key, std::shared_ptr<Lane>> lanes_;  // of those that have one
  std::vector<c10::Device> devices_;            // in the order of their first use
};

}  // namespace tutti::pytorch
