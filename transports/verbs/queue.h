// One reliable connection to a peer on one rail: a queue pair, the buffers of the short messages that it carries, and
// the count of what is on its way.
//
// Every slot and every part of a short message that arrives uses up a receive. There are fewer receives than a peer may
// send without new credits (the depths of all rings together), and yet nothing is lost: a device without a receive
// reports that, and the sender's device retries indefinitely (which a retry count of 7 means). So a rank that rarely
// looks at its network is slow, and never an error.
//
// Thread-safety: one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transports/verbs/messages.h"
#include "transports/verbs/numbers.h"
#include "transports/verbs/port.h"

namespace tutti::verbs {

class VerbsQueue {
 public:
  // The bytes of a part of a short message. All messages that are sent while data moves fit into one or two.
  static constexpr std::size_t kPartBytes = 256;

  // `messages`: it carries short messages, too. Throws tuttiSystemError.
  VerbsQueue(VerbsPort& rail, int peer, bool messages);

  VerbsPort& rail() const { return rail_; }
  const ibv_qp* pair() const { return pair_.get(); }
  // This end, to be sent to the peer.
  QueuePlace place() const;
  // Connects to the other end: slots may be sent once the peer has done the same. "", or why it fails.
  std::string Connect(const QueuePlace& theirs, const Settings& settings);
  // "mlx5_0 port 1 to 10.0.0.2".
  std::string name() const;

  // Requests that may still be posted, and those that have not completed.
  std::size_t room() const { return most_ - busy_; }
  std::size_t busy() const { return busy_; }
  // Data of this length is copied when it is posted.
  bool Inlines(std::size_t bytes) const { return bytes <= inline_bytes_; }

  // A write into the peer's memory. `inlined`: see Inlines().
  struct Write {
    std::span<ibv_sge> pieces;
    std::uint64_t address;
    std::uint32_t key;
    bool inlined;
  };
  // Posts the write that brings the immediate; before it, if there is `data`, that one. 0, or an errno. REQUIRES: room()
  // for as many requests.
  int PostSlot(const Write& write, const Write* data, const WorkId& id, std::uint32_t immediate);
  // Posts a request. 0, or an errno. REQUIRES: room() > 0; at most kPartBytes.
  int PostPart(std::span<const std::byte> part, PartImmediate immediate);
  // False: PostPart() has to wait for a buffer.
  bool CanPostPart() const { return Inlines(kPartBytes) || !free_parts_.empty(); }

  // A request of these has completed.
  void Done(const WorkId& id);
  // The content of a short message's part. REQUIRES: a completed receive, until Receive().
  std::span<const std::byte> Part(std::uint32_t buffer, std::size_t bytes) const {
    return {parts_.get() + buffer * kPartBytes, std::min(bytes, kPartBytes)};
  }
  // Posts the receive again. 0, or an errno.
  int Receive(std::uint32_t buffer);

  // Sends and receives nothing any more.
  void Stop();

 private:
  static constexpr std::uint32_t kReceives = 256;
  static constexpr std::uint32_t kSends = 128;
  static constexpr std::uint32_t kSendBuffers = 16;  // of parts, where the device does not copy them

  void Create();

  VerbsPort& rail_;
  std::uint32_t peer_;
  bool messages_;
  std::uint32_t packet_;
  std::size_t most_ = kSends;
  std::uint32_t receives_ = kReceives;
  std::size_t inline_bytes_ = 0;
  std::size_t busy_ = 0;
  std::string towards_;  // the peer's address

  // Receives' buffers, then sends'. Users of memory are destroyed before it: the pair first, then the region.
  std::unique_ptr<std::byte[]> parts_;
  std::vector<std::uint32_t> free_parts_;
  MemoryRegion region_;
  QueuePair pair_;
};

}  // namespace tutti::verbs
