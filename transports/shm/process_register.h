// Whole objects that the ranks of one process lend each other, found by a key.
//
// A rank sends its peers a random key, never an address. A peer looks the key up in the register of its own process, so
// a word from the wire is compared and never dereferenced. Ownership is shared: an object lives on when the rank that
// offered it fails.
//
// Thread-safety: all functions may be called from any thread. The register is process-wide, because ranks of one
// process share nothing else.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <typeindex>
#include <utility>

#include "base/file_descriptor.h"

namespace tutti::shm {

// Random, 128 bits.
using RegisterKey = std::array<unsigned char, 16>;

// Names this process among all others; a forked child has another one.
RegisterKey ProcessKey();

// An entry of the register for as long as this object lives.
class Offer {
 public:
  // `rank` offers it: a peer finds it only under the key and this rank.
  template <typename T>
  Offer(int rank, std::shared_ptr<T> lent) : Offer(rank, typeid(T), std::move(lent)) {}
  ~Offer();
  Offer(const Offer&) = delete;
  Offer& operator=(const Offer&) = delete;

  const RegisterKey& key() const { return key_; }

 private:
  Offer(int rank, std::type_index type, std::shared_ptr<void> lent);

  RegisterKey key_;
};

std::shared_ptr<void> FindOffer(const RegisterKey& key, int rank, std::type_index type);

// The object that `rank` of this process offers under `key` at this moment. Null if there is no such offer of a T: the
// rank has failed, or it belongs to another process.
template <typename T>
std::shared_ptr<T> FindOffer(const RegisterKey& key, int rank) {
  return std::static_pointer_cast<T>(FindOffer(key, rank, typeid(T)));
}

// Descriptors of the processes that ranks of this process watch: one for each, however many ranks and communicators
// there are. Takes a pidfd, and returns it or an earlier one of the same process.
std::shared_ptr<const FileDescriptor> ShareProcess(FileDescriptor pidfd);
// Whether a peer gave a descriptor of a process, and nothing that may block a poll(). False without /proc.
bool IsPidfd(const FileDescriptor& descriptor);
// The number of the process, as this process sees it; 0 if it does not see it, or the process has ended.
int ProcessNumber(const FileDescriptor& pidfd);
// False where there is no descriptor (-1).
bool HasEnded(int pidfd);

}  // namespace tutti::shm
