// The network transport that the network engine (network.h) uses: it carries slots, and short messages about them, to
// ranks of other hosts. Nothing here blocks.
//
// Slots may overtake each other on the way, because each carries its number. A short message arrives before every slot
// sent to that peer after it, with one exception: a transport of several streams may let slots of *later* Send calls
// pass messages of earlier ones on another stream.
//
// Thread-safety: one thread at a time; the engine ensures that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/clocks/deadline.h"
#include "transports/ring/slot.h"

namespace tutti::progress {

// One slot on its way.
struct SlotMessage {
  std::uint32_t connection;  // ConnectionOf(channel, protocol)
  std::uint32_t number;      // 1, 2, ... as in slots' flags
  std::uint32_t tag;         // of the operation
  std::uint32_t bytes;

  bool operator==(const SlotMessage&) const = default;
};

// Memory of a GPU that slots' data lie in. Processors do not reach it, and NICs by files. It may be called from any thread,
// and never calls the device's driver: kernels may wait for the caller, and the driver for them.
class DeviceMemory {
 public:
  // A range of memory in a file (dma-buf) that lives as long as the memory.
  struct File {
    int descriptor;
    std::uint64_t offset;
  };

  virtual ~DeviceMemory() = default;
  // Where this range lies. None: no memory has been taken for it yet.
  virtual std::optional<File> FileOf(const std::byte* begin, std::size_t bytes) const = 0;
};

// The data of a ring's slots where they do not lie behind their headers.
struct DataApart {
  std::byte* begin = nullptr;  // null: they lie there
  std::uint32_t stride = 0;
  std::size_t bytes = 0;                 // of all slots; of a device, whole pages
  const DeviceMemory* device = nullptr;  // null: memory of the host
};

// Where the slots of a ring lie.
struct RingMemory {
  std::byte* slots = nullptr;  // the headers; null: there is no such ring
  ring::SlotShape shape{};     // stride and data_offset are those of `slots`
  DataApart apart{};

  // Of slot number count + 1.
  std::byte* Header(std::uint32_t count) const { return slots + Index(count) * shape.stride; }
  std::byte* Data(std::uint32_t count) const {
    return apart.begin == nullptr ? Header(count) + shape.data_offset : apart.begin + Index(count) * apart.stride;
  }
  // Of `slots`.
  std::size_t bytes() const { return std::size_t{shape.stride} * shape.depth; }

 private:
  std::size_t Index(std::uint32_t count) const { return ring::SlotIndex(count, shape.depth); }
};

// Of a connection: the ring that this rank fills for the peer, and the one that the peer fills.
struct ConnectionMemory {
  RingMemory outgoing, incoming;
};

// The longest short message.
inline constexpr std::size_t kMaxControlBytes = 2048;

// A transport's reports to the engine. `peer` is always a rank that the transport was made for.
class NetworkTransportEvents {
 public:
  virtual ~NetworkTransportEvents() = default;
  // The peer is connected, on this rank's initiative or its own.
  virtual void Connected(int peer) = 0;
  // Where an arriving slot's data belongs; null if there is no such slot or it is not free: then the peer is no longer
  // trusted.
  virtual std::byte* Landing(int peer, const SlotMessage& message) = 0;
  // The same, perhaps outside the slot: where the call that waits for the data wants it. For a transport that writes nothing
  // there any more once Abandon() has returned.
  virtual std::byte* LandingInPlace(int peer, const SlotMessage& message) { return Landing(peer, message); }
  // The slot's data has arrived.
  virtual void Landed(int peer, const SlotMessage& message) = 0;
  // The memory that a slot was sent from is no longer needed.
  virtual void Sent(int peer, std::uint32_t connection, std::uint32_t number) = 0;
  // False: the message is malformed.
  virtual bool Control(int peer, std::span<const std::byte> message) = 0;
  // For transports that reach slots without the processor's help. The transport may touch free incoming slots, and an
  // outgoing slot from its Send() to its Sent(), except the flag.
  virtual ConnectionMemory Memory(int /*peer*/, std::uint32_t /*connection*/) { return {}; }
  // Keeps that memory, whatever becomes of the communicator. Null: nothing does.
  virtual std::shared_ptr<const void> MemoryOwner(int /*peer*/, std::uint32_t /*connection*/) { return nullptr; }
  // Nothing more will come from the peer or go to it. `why` is for a person: "its connection was closed".
  virtual void Broken(int peer, const std::string& why) = 0;
};

class NetworkTransport {
 public:
  virtual ~NetworkTransport() = default;

  // It asks for LandingInPlace(). Then senders on both sides run ahead (network_rings.h). The same on all ranks.
  virtual bool lands_in_place() const { return false; }
  // Total GB/s of all that it uses, each way; 0: unknown.
  virtual double bandwidth() const { return 0; }
  // Begins to connect, if that has not begun. Messages may be sent from now on; they wait for the connection.
  virtual void Connect(int peer) = 0;
  // As above, but does not wait for the peer to call first.
  virtual void Hurry(int peer) { Connect(peer); }
  // This rank's calls use the connection from now on: there is memory for all of its rings (DeviceMemory).
  virtual void Use(int /*peer*/, std::uint32_t /*connection*/) {}
  // About how many slots could be sent now. 0: ask again after Advance() has moved something.
  virtual int Room(int peer) const = 0;
  // Takes a slot; `data` must not change until Sent(), which may be called from within. REQUIRES: Room(peer) > 0.
  virtual void Send(int peer, const SlotMessage& message, const std::byte* data) = 0;
  // Takes a short message, always. REQUIRES: at most kMaxControlBytes.
  virtual void SendControl(int peer, std::span<const std::byte> message) = 0;
  // Passes what was taken to the network, as far as the network accepts it.
  virtual void Flush(int peer) = 0;
  // Handles all that has happened. True: something had.
  virtual bool Advance() = 0;
  // Reports peers that have stopped answering as Broken. Called now and then while a thread waits.
  virtual void LookForSilence() = 0;
  // A descriptor that polls readable when Advance() would find something, and the longest time to wait for it.
  virtual int descriptor() const = 0;
  virtual Deadline::Milliseconds LongestWait() const = 0;
  // Called before a wait for descriptor(). False: do not wait, there is work.
  virtual bool PrepareToSleep() { return true; }
  // Slots will refer to this memory, until Deregister() with the same range: a transport that sends from where data
  // lies prepares for it. Throws tuttiSystemError.
  virtual void Register(const std::byte* /*begin*/, std::size_t /*bytes*/) {}
  // REQUIRES: nothing that is being sent lies there.
  virtual void Deregister(const std::byte* /*begin*/, std::size_t /*bytes*/) {}
  // Breaks with the peer: when this returns, nothing reads the memory of slots that were given to Send() and are not Sent(),
  // nothing writes where LandingInPlace() said, and what has not left by then never arrives.
  virtual void Abandon(int peer) = 0;
  // Refuses new connections from now on, so that no rank waits for an answer that will not come.
  virtual void Close() = 0;
  // Whether a proven connection to `peer` is open, and the peer's system answers on it.
  virtual bool Reaches(int peer) const = 0;
  // Everything taken for `peer` has arrived at its host, or never will.
  virtual bool Delivered(int peer) const = 0;
};

}  // namespace tutti::progress
