// The receiving half of a peer: buffers that wait for its messages, and slots that wait for their data.
//
// Thread-safety: one thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>

#include "transports/plugin/buffers.h"
#include "transports/plugin/connection.h"
#include "transports/plugin/messages.h"
#include "transports/progress/network_transport.h"

namespace tutti::plugin {

class Inbox {
 public:
  // `token`: what the peer's messages must carry. The library and the events outlive it.
  Inbox(int rank, std::uint64_t token, const Library& library, progress::NetworkTransportEvents& events);
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  // Listens for the peer's connections. False: it failed.
  bool Listen(void* context, int device, std::array<Handle, kLines>& handles);
  // The most bytes of data at a time. REQUIRES: before the peer learns where to connect to.
  void Expect(std::size_t piece) { piece_ = piece; }
  // Hands on what has arrived. True: something had.
  bool Advance();

  // The peer has proven that both connections are its own.
  bool open() const { return greeted_[0] && greeted_[1]; }
  // The peer has sent all that it will ever send.
  bool ended() const { return ends_ == Buffers::kMessages; }
  // No memory but this object's own is in use.
  bool quiet() const { return coming_.empty(); }
  // No request is left.
  bool idle() const {
    return std::ranges::all_of(lines_, [](const auto& line) { return line->idle(); });
  }
  // After Outlive().
  bool FinishAll() {
    const bool messages = At(Line::messages).FinishAll();
    return At(Line::data).FinishAll() && messages;
  }
  // For an object that outlives its communicator, until its requests are done: drops what they do not need. False: it
  // must not, because they need memory that may go.
  bool Outlive() {
    if (quiet()) rings_.Drop();
    return rings_.Owned();
  }
  // Slots and short messages handed on so far.
  std::uint64_t handed_on() const { return handed_on_; }
  // Why it has failed, for a person; "" if it has not.
  const std::string& why() const { return why_; }

 private:
  // A slot whose data is to come. Data comes in the order of the headers.
  struct Coming {
    progress::SlotMessage slot;
    std::byte* landing;
    std::size_t posted = 0;  // bytes
    std::size_t landed = 0;
  };

  bool Accept();
  bool TakeMessages();
  bool OfferBuffers();
  bool TakeData();
  bool OfferLandings();
  bool Take(std::span<const std::byte> message);
  bool TakeSlot(const Header& header, std::span<const std::byte> payload);
  bool AwaitData(const progress::SlotMessage& slot, std::byte* landing);
  const Memory* RingMemory(std::uint32_t connection);
  // False, for convenience.
  bool Failed(const Connection& connection);
  bool Nonsense();
  ReceivingConnection& At(Line line) { return *lines_[static_cast<std::size_t>(line)]; }
  bool& Greeted(Line line) { return greeted_[static_cast<std::size_t>(line)]; }

  int rank_;
  std::uint64_t token_;
  progress::NetworkTransportEvents& events_;
  std::size_t piece_ = kMostPiece;
  std::string why_;
  bool malformed_ = false;  // the peer is not believed any more
  std::array<bool, kLines> greeted_{};
  bool data_begun_ = false;  // a buffer waits for the data connection's hello
  std::uint64_t handed_on_ = 0;
  // Counts of messages: buffer i % kMessages is for message i.
  std::size_t offered_ = 0;
  std::size_t taken_ = 0;
  std::size_t ends_ = 0;  // of those taken
  std::deque<Coming> coming_;
  std::size_t next_ = 0;  // the first of them that is not wholly posted

  std::unique_ptr<Buffers> buffers_;  // from Listen() on
  std::array<std::unique_ptr<ReceivingConnection>, kLines> lines_;
  // Destroyed before the connections.
  Memory messages_memory_;
  Memory hello_memory_;
  Rings rings_;
};

}  // namespace tutti::plugin
