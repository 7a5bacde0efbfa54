// One TCP connection to a peer as a stream of slots and short messages:
//
//     header (16 bytes: kind, length, and for a slot its connection, number and tag) | that many bytes
//
// A slot's bytes go from the sender's memory to the system - the long ones stay in it (zero_copy.h) - and from there
// into the receiver's slot, without a stop between. Both ends have proven themselves before (net/handshake.h), and have
// the same byte order.
//
// Thread-safety: one thread at a time. Nothing here blocks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "net/socket.h"
#include "transports/carrier.h"
#include "transports/zero_copy.h"

namespace tutti {

class TcpStream {
 public:
  // Slots that wait for the system at the most.
  static constexpr std::size_t kMaxSlots = 16;

  TcpStream(Socket socket, int peer, ZeroCopySends::Mode zero_copy = ZeroCopySends::Mode::useful);

  int peer() const { return peer_; }
  const Socket& socket() const { return socket_; }
  std::size_t slots_queued() const { return slots_queued_; }
  // Bytes that wait for the system.
  std::size_t bytes_queued() const { return bytes_queued_; }
  // Those, and what the system has and the peer's has not acknowledged. Takes a system call.
  std::size_t bytes_on_the_way() const;

  void QueueSlot(const SlotMessage& message, const std::byte* data);
  void QueueControl(std::span<const std::byte> message);
  // Sends what the system takes. False: the connection is broken.
  bool Flush(CarrierEvents& events);
  // Hears what the system says of slots that it reads where they lie. True: there was news.
  bool Reap(CarrierEvents& events) { return zero_copy_.Reap(socket_, peer_, events); }
  // Receives what there is, up to some limit. False: the connection is over. `moved`: anything came.
  bool Receive(CarrierEvents& events, bool& moved);
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
    const std::byte* data = nullptr;  // slots
    std::vector<std::byte> own;       // short messages; its memory is used again
    std::size_t size() const { return sizeof(Header) + header.bytes; }
  };

  bool StaysInPlace(const Item& item) const { return item.data != nullptr && zero_copy_.IsWorth(item.header.bytes); }
  ssize_t SendSome();
  Item& Push();
  Item& At(std::size_t i) { return queue_[(first_ + i) % queue_.size()]; }
  void Drop(std::size_t sent, CarrierEvents& events);
  bool Fail(std::string why);
  bool Parse(CarrierEvents& events);
  bool Arrived(CarrierEvents& events);

  Socket socket_;
  int peer_;
  ZeroCopySends zero_copy_;
  std::string why_;

  // Items that wait, in a ring that grows when it must.
  std::vector<Item> queue_;
  std::size_t first_ = 0, queued_ = 0;
  std::size_t first_sent_ = 0;  // bytes of the first one that are with the system
  std::size_t slots_queued_ = 0, bytes_queued_ = 0;

  // What has been read beyond what is understood.
  static constexpr std::size_t kStaging = 8192;
  std::array<std::byte, kStaging> staging_;
  std::size_t staged_ = 0;
  // The item that is arriving; `missing_` bytes of it are still to come, to landing_.
  Header arriving_{};
  bool in_body_ = false;
  std::byte* landing_ = nullptr;
  std::size_t missing_ = 0;
  std::array<std::byte, kMaxControlBytes> control_;
};

}  // namespace tutti
