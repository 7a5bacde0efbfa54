// File descriptors that a rank of a host sends to another one at any time, without waiting for it.
//
// Each rank has given the sending end of a socket of its own to all others of its host, by ExchangeDescriptors. So only they
// can send, and no name exists.
//
// Thread-safety: used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/clocks/deadline.h"
#include "transports/shm/descriptors/descriptor_exchange.h"

namespace tutti::shm {

class DescriptorMail {
 public:
  // What comes with a descriptor; the numbers mean what sender and receiver agree on.
  struct Letter {
    std::int32_t from = 0;
    std::uint32_t subject = 0, number = 0;
    std::uint64_t bytes = 0;
  };
  struct Delivery {
    Letter letter;
    FileDescriptor file;
  };

  // Collective. Throws tuttiSystemError, and what the exchange throws.
  DescriptorMail(Locality locality, const AllGather& all_gather, Deadline deadline);

  // To a rank of this host in another process. False if that has too much unread mail: try again later. A rank that is gone
  // counts as having got it.
  bool Send(int rank, const Letter& letter, const FileDescriptor& file) const;
  // The next one that has come, if any.
  std::optional<Delivery> Receive() const;

 private:
  Locality locality_;
  FileDescriptor inbox_;
  std::vector<FileDescriptor> outboxes_;  // by rank
};

}  // namespace tutti::shm
