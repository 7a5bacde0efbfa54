// The sending half of a peer: messages and the data of long slots, on their way out.
//
// Thread-safety: one thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transports/plugin/buffers.h"
#include "transports/plugin/connection.h"
#include "transports/plugin/messages.h"
#include "transports/progress/network_transport.h"
#include "transports/progress/range_map.h"

namespace tutti::plugin {

// A range of the user's memory that slots may refer to. It is registered for a connection when that first sends from it.
struct UserRange {
  std::byte* begin;
  std::size_t bytes;
};
using UserRanges = progress::RangeMap<std::shared_ptr<const UserRange>>;

class Outbox {
 public:
  // Outlives it.
  struct Shared {
    const Library& library;
    void* context;
    int device;
    progress::NetworkTransportEvents& events;
    const UserRanges& user_ranges;
  };

  Outbox(int rank, const Shared& shared);
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  // Begins to connect. `piece`: the most bytes of data at a time.
  void Connect(const Greeting& theirs, std::size_t piece);
  bool met() const { return met_; }
  bool open() const { return open_; }

  // Slots that could be taken now; none before there is a connection.
  int Room() const { return open() && !ended_ ? kMostSlots - slots_ : 0; }
  // The slot is reported as sent when its data is no longer needed.
  void Send(const progress::SlotMessage& slot, const std::byte* data);
  void SendShort(std::span<const std::byte> message);
  // Nothing is taken after this.
  void End();
  // Short messages that wait for the connection, and will not go this way. REQUIRES: !open().
  std::vector<std::vector<std::byte>> TakeWaiting();
  // Passes on what was taken, as far as the network accepts it: the caller may not come back soon. Some plug-ins send
  // only when they are asked whether they have sent, so they are asked.
  void Flush();
  // Moves whatever can be moved. True: something moved.
  bool Advance();

  // End() was called.
  bool ending() const { return ended_; }
  // Messages taken so far: slots and short ones.
  std::uint64_t sent() const { return sent_; }
  // All of them are on their way, as far as the plug-in tells.
  bool settled() const { return finished_ == sent_; }
  // No request is left.
  bool drained() const { return waiting_.empty() && filled_ == done_ && long_slots_.empty(); }
  // No memory but this object's own is in use.
  bool quiet() const { return long_slots_.empty(); }
  // As Inbox.
  bool idle() const {
    return std::ranges::all_of(lines_, [](const auto& line) { return line->idle(); });
  }
  // After Outlive().
  bool FinishAll() {
    const bool messages = At(Line::messages).FinishAll();
    return At(Line::data).FinishAll() && messages;
  }
  bool Outlive();
  // Drops registrations of ranges that are gone.
  void DropRanges();
  // Why it has failed, for a person; "" if it has not.
  const std::string& why() const { return why_; }

 private:
  // As many as there are buffers: then a plug-in has as much to do as it can.
  static constexpr int kMostSlots = static_cast<int>(Buffers::kMessages);

  // A message that has no buffer yet.
  struct Waiting {
    Kind kind;
    progress::SlotMessage slot;
    const std::byte* data;           // of a slot
    std::vector<std::byte> message;  // a short one
  };
  // What a buffer holds.
  struct Filled {
    Kind kind = Kind::hello;
    progress::SlotMessage slot{};
    std::size_t bytes = 0;
  };
  // A long slot whose header has a buffer, or has gone.
  struct LongSlot {
    progress::SlotMessage slot;
    const std::byte* data;
    const Memory* memory;
    std::size_t posted = 0;  // bytes
    std::size_t done = 0;
  };
  struct FromRange {
    std::weak_ptr<const UserRange> range;
    Memory memory;
  };

  bool Open();
  bool HasBuffer() const { return open() && filled_ - done_ < Buffers::kMessages; }
  bool MayPlace() const { return waiting_.empty() && HasBuffer(); }
  void Fill(Kind kind, const progress::SlotMessage& slot, std::span<const std::byte> payload);
  void Place(const Waiting& next);
  const Memory* MemoryOf(const progress::SlotMessage& slot, const std::byte*& data);
  const Memory* MemoryOf(const std::shared_ptr<const UserRange>& range);
  bool FinishDone();
  bool Post();
  bool PostMessages();
  bool PostData();
  // Calls `finish` for each request that is done, the oldest first. True: there was one.
  template <typename Do>
  bool ForFinished(Line which, Do&& finish);
  void FinishMessage();
  void FinishPiece();
  void Told(const progress::SlotMessage& slot);
  SendingConnection& At(Line line) { return *lines_[static_cast<std::size_t>(line)]; }
  // False, for convenience.
  bool Failed(const Connection& connection);

  int rank_;
  Shared shared_;
  std::uint64_t token_ = 0;
  std::size_t piece_ = kMostPiece;
  std::array<Handle, kLines> handles_{};
  bool met_ = false;
  bool open_ = false;
  bool data_begun_ = false;       // the data connection's hello is on its way
  bool data_hello_done_ = false;  // and has gone
  std::string why_;

  std::deque<Waiting> waiting_;
  std::uint64_t sent_ = 0;
  std::uint64_t finished_ = 0;
  bool ended_ = false;
  int slots_ = 0;  // taken and not yet told
  // Counts of messages: buffer i % kMessages holds message i.
  std::size_t filled_ = 0;
  std::size_t posted_ = 0;
  std::size_t done_ = 0;
  std::array<Filled, Buffers::kMessages> what_{};
  std::deque<LongSlot> long_slots_;
  std::size_t next_long_ = 0;  // the first that is not wholly posted

  std::unique_ptr<Buffers> buffers_;  // once open
  std::array<std::unique_ptr<SendingConnection>, kLines> lines_;
  // Destroyed before the connections.
  Memory messages_memory_;
  Memory hello_memory_;
  Rings rings_;
  std::list<FromRange> ranges_;
};

}  // namespace tutti::plugin
