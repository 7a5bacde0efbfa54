// Protects data on its way between hosts: one direction of one proven connection, item by item (stream.h).
//
// AES-256 in Galois/counter mode (gcm.h) proves items, and hides their bodies if asked. Items are counted, and no nonce is
// used twice: it is the item's count and the part of the item, because a long body's proof follows the body. So nothing can
// be injected, changed, repeated, dropped or moved to another place. Hiding also costs a copy, because a sender must not
// change the user's memory.
//
// The kernel's TLS is not used: its module is missing in many containers, so a second method would be needed all the same,
// and no machine was available to measure it.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "net/auth/secret_key.h"
#include "transports/tcp/seal/gcm.h"

namespace tutti::tcp {

enum class DataProtection { none, authenticate, encrypt };
// REQUIRES: a word that TUTTI_DATA_PROTECTION allows.
DataProtection ProtectionOf(std::string_view setting);

class TcpSeal {
 public:
  static constexpr std::size_t kTagBytes = Gcm::kTagBytes;
  using Tag = Gcm::Tag;
  // A unit of proof: a header, with its body if that is short; or a long body.
  enum class Part : unsigned char { ahead, behind };

  TcpSeal() = default;  // protects nothing
  TcpSeal(DataProtection protection, const auth::SecretKey& key);

  bool proves() const { return protection_ != DataProtection::none; }
  bool hides() const { return protection_ == DataProtection::encrypt; }

  // Goes to the next item. REQUIRES: proves(); before all that follows.
  void Next() { ++count_; }
  // Returns the proof of a part. If this hides, `hidden` (of body.size() bytes, which may be the body's own) gets the
  // bytes to send instead of the body; else it is unused. If the library fails, those are zeros and the proof is void.
  Tag Close(Part part, std::span<const std::byte> header, std::span<const std::byte> body, std::byte* hidden);
  // Whether a part that arrived is what was sent. If this hides, decrypts the body in place: it may be used only if
  // this returns true.
  bool Open(Part part, std::span<const std::byte> header, std::span<std::byte> body,
            std::span<const std::byte, kTagBytes> tag);

 private:
  Gcm::Nonce NonceOf(Part part) const;

  DataProtection protection_ = DataProtection::none;
  std::unique_ptr<Gcm> gcm_;
  std::uint64_t count_ = 0;
};

}  // namespace tutti::tcp
