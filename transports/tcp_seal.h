// How data on its way between hosts is protected: one direction of one proven connection, item by item (tcp_stream.h).
//
// Poly1305 proves items, ChaCha20 hides them (RFC 8439's parts, by libsodium, which has them on every processor). Items
// are counted. The connection's key and the count make two keys that are used once: one for what is proven ahead of an
// item's body, and one for a long body, whose proof follows it. So nothing can be injected, changed, repeated, dropped
// or moved to another place. Hiding costs a copy besides: a sender's memory is not its own to change.
//
// Thread-safety: one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "net/secret_key.h"

namespace tutti {

enum class DataProtection { none, authenticate, encrypt };
// REQUIRES: a word that TUTTI_DATA_PROTECTION allows.
DataProtection ProtectionOf(std::string_view setting);

class TcpSeal {
 public:
  static constexpr std::size_t kTagBytes = 16;
  using Tag = std::array<std::byte, kTagBytes>;

  TcpSeal() = default;  // protects nothing
  TcpSeal(DataProtection protection, const SecretKey& key) : protection_(protection), key_(key) {}

  bool proves() const { return protection_ != DataProtection::none; }
  bool hides() const { return protection_ == DataProtection::encrypt; }

  // Goes to the next item. REQUIRES: proves(); before all that follows.
  void Next();
  // Of this item's header, and its body if that is short.
  Tag TagAhead(std::span<const std::byte> header, std::span<const std::byte> body = {}) const;
  // Of a long body.
  Tag TagBehind(std::span<const std::byte> body) const;
  // Hides or shows a body; `to` may be where it is. REQUIRES: hides().
  void Turn(std::span<const std::byte> from, std::byte* to) const;

 private:
  using Nonce = std::array<unsigned char, crypto_stream_chacha20_ietf_NONCEBYTES>;

  DataProtection protection_ = DataProtection::none;
  SecretKey key_;
  std::uint64_t count_ = 0;
  Nonce nonce_{};
  // The stream's first block; bodies are hidden by those that follow it.
  std::array<unsigned char, 2 * crypto_onetimeauth_KEYBYTES> once_{};
};

// Constant time.
inline bool SameTag(std::span<const std::byte> a, const TcpSeal::Tag& b) {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), b.size()) == 0;
}

}  // namespace tutti
