// How data on its way between hosts is protected: one direction of one proven connection, item by item (stream.h).
//
// AES-256 in Galois/counter mode (NIST SP 800-38D) proves items, and hides their bodies if asked. Items are counted,
// and no nonce is used twice: it is the item's count, and which part of the item it is, for a long body's proof follows
// the body. So nothing can be injected, changed, repeated, dropped or moved to another place. Hiding costs a copy
// besides: a sender's memory is not its own to change.
//
// By OpenSSL's libcrypto, which has this mode in the processor's own instructions on x86 and ARM: its proofs take a
// quarter of the time of libsodium's (docs/performance.md). It is used in a context of its own, which no configuration
// file changes, and which is there until the process is gone, whatever else in the process uses or cleans up OpenSSL.
//
// Thread-safety: one thread at a time.
#pragma once

#include <openssl/evp.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "net/auth/secret_key.h"

namespace tutti {

enum class DataProtection { none, authenticate, encrypt };
// REQUIRES: a word that TUTTI_DATA_PROTECTION allows.
DataProtection ProtectionOf(std::string_view setting);

class TcpSeal {
 public:
  static constexpr std::size_t kTagBytes = 16;
  using Tag = std::array<std::byte, kTagBytes>;
  // What is proven at once: a header, with its body if that is short; or a long body.
  enum class Part : unsigned char { ahead, behind };

  TcpSeal() = default;  // protects nothing
  TcpSeal(DataProtection protection, const SecretKey& key);

  bool proves() const { return protection_ != DataProtection::none; }
  bool hides() const { return protection_ == DataProtection::encrypt; }

  // Goes to the next item. REQUIRES: proves(); before all that follows.
  void Next() { ++count_; }
  // The proof of a part. If this hides, `hidden` (of body.size() bytes, which may be the body's own) gets what is sent
  // in place of the body; else it is not used. Should libcrypto fail, that is zeros and a proof that proves nothing.
  Tag Close(Part part, std::span<const std::byte> header, std::span<const std::byte> body, std::byte* hidden);
  // Whether a part that came is what was sent. If this hides, the body is turned into what was hidden, where it is: it
  // may be used only if this returns true.
  bool Open(Part part, std::span<const std::byte> header, std::span<std::byte> body,
            std::span<const std::byte, kTagBytes> tag);

 private:
  struct Freed {
    void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
  };

  bool Begin(Part part, bool closing);
  bool Prove(std::span<const std::byte> bytes);
  bool Turn(std::span<const std::byte> from, std::byte* to);

  DataProtection protection_ = DataProtection::none;
  std::unique_ptr<EVP_CIPHER_CTX, Freed> context_;  // has the key
  std::uint64_t count_ = 0;
};

}  // namespace tutti
