// One TCP connection to a peer as a stream of slots and short messages:
//
//     header (16 bytes: kind, length, and for a slot its connection, number and tag) | that many bytes
//     header | tag | bytes           protected (seal.h), up to kTogether bytes: the tag proves header and bytes
//     header | tag | bytes | tag     protected, longer: the first proves the header, the second the bytes
//
// Nothing of a protected item is used before it is proven. A long slot's bytes land in its place before that, or where a call
// wants them, but no reader looks there until the slot has landed, and the choice of that place is already proven. If they are
// not authentic, the call fails.
//
// A slot's bytes go from the sender's memory to the system - long ones are read in place (zero_copy.h) - and from there
// directly into the receiver's slot. Both ends have proven themselves before (net/auth/handshake.h), and have the same
// byte order.
//
// Thread-safety: one thread at a time. Nothing here blocks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "net/socket.h"
#include "transports/progress/network_transport.h"
#include "transports/tcp/seal/seal.h"
#include "transports/tcp/zero_copy.h"

namespace tutti::tcp {

class TcpStream {
 public:
  // The most slots that wait for the system.
  static constexpr std::size_t kMaxSlots = 16;

  // Longer bodies are proven by themselves.
  static constexpr std::size_t kTogether = 4096;

  // One for each direction.
  struct Seals {
    TcpSeal sending;
    TcpSeal receiving;
  };

  TcpStream(net::Socket socket, int peer, Seals seals = {},
            ZeroCopySends::Mode zero_copy = ZeroCopySends::Mode::useful);

  int peer() const { return peer_; }
  const net::Socket& socket() const { return socket_; }
  std::size_t slots_queued() const { return slots_queued_; }
  // Bytes that wait for the system.
  std::size_t bytes_queued() const { return bytes_queued_; }
  // Those, plus bytes that the system has and the peer's has not acknowledged. Takes a system call.
  std::size_t bytes_on_the_way() const;

  void QueueSlot(const progress::SlotMessage& message, const std::byte* data);
  void QueueControl(std::span<const std::byte> message);
  // Sends what the system takes. False: the connection is broken.
  bool Flush(progress::NetworkTransportEvents& events);
  // Collects the system's notices about slots that it reads in place. True: there were some.
  bool Reap(progress::NetworkTransportEvents& events) { return zero_copy_.Reap(socket_, peer_, events); }
  // Receives what there is, up to some limit. False: the connection is over, for good. `moved`: something arrived.
  bool Receive(progress::NetworkTransportEvents& events, bool& moved) {
    over_ = over_ || !ReceiveMore(events, moved);
    return !over_;
  }
  // After false: what happened, for a person.
  const std::string& why() const { return why_; }

 private:
  enum class Kind : std::uint32_t { slot = 1, control = 2 };
  struct Header {
    std::uint16_t kind;
    std::uint16_t connection;
    std::uint32_t number;
    std::uint32_t tag;
    std::uint32_t bytes;
  };
  static_assert(sizeof(Header) == 16);
  struct Item {
    Header header;
    TcpSeal::Tag ahead;
    TcpSeal::Tag behind;
    const std::byte* data = nullptr;  // of slots that are sent in place
    std::vector<std::byte> own;       // other bytes to send; its memory is reused
    const std::byte* body() const { return data != nullptr ? data : own.data(); }
  };

  bool StaysInPlace(const Item& item) const { return item.data != nullptr && zero_copy_.IsWorth(item.header.bytes); }
  // Bytes on the wire before and after a body.
  static std::size_t BytesAhead(const TcpSeal& seal) {
    return sizeof(Header) + (seal.proves() ? TcpSeal::kTagBytes : 0);
  }
  static std::size_t BytesBehind(const TcpSeal& seal, std::size_t body) {
    return seal.proves() && body > kTogether ? TcpSeal::kTagBytes : 0;
  }
  std::size_t SizeOf(const Item& item) const {
    return BytesAhead(seals_.sending) + item.header.bytes + BytesBehind(seals_.sending, item.header.bytes);
  }
  void Seal(Item& item);
  ssize_t SendSome();
  Item& Push();
  Item& At(std::size_t i) { return queue_[(first_ + i) % queue_.size()]; }
  void Drop(std::size_t sent, progress::NetworkTransportEvents& events);
  bool Fail(std::string why);
  bool FailAsForged();
  // Bytes to read behind the body that is arriving. 0: it is all that is read.
  std::size_t ReadsAhead() const;
  bool ReceiveMore(progress::NetworkTransportEvents& events, bool& moved);
  bool Parse(progress::NetworkTransportEvents& events);
  bool Begin(progress::NetworkTransportEvents& events, std::span<std::byte> staged, std::size_t& used);
  bool Arrived(progress::NetworkTransportEvents& events);

  net::Socket socket_;
  int peer_;
  Seals seals_;
  ZeroCopySends zero_copy_;
  std::string why_;

  // Items that wait, in a ring that grows when it must.
  std::vector<Item> queue_;
  std::size_t first_ = 0, queued_ = 0;
  std::size_t first_sent_ = 0;  // bytes of the first one that the system has taken
  std::size_t slots_queued_ = 0, bytes_queued_ = 0;

  bool over_ = false;  // nothing that arrives is accepted any more
  // Bytes that are read but not parsed yet.
  static constexpr std::size_t kStaging = 8192;
  std::array<std::byte, kStaging> staging_;
  std::size_t staged_ = 0;
  // The item that is arriving; `missing_` bytes of it are still to come, to landing_.
  Header arriving_{};
  bool in_body_ = false;
  std::byte* body_ = nullptr;
  std::byte* landing_ = nullptr;
  std::size_t missing_ = 0;
  std::array<std::byte, progress::kMaxControlBytes> control_;
};

}  // namespace tutti::tcp
