// Frames: the messages between the two ends of a proven connection.
//
//     length (4 bytes, of the payload) | tag (16 bytes) | payload, encrypted
//
// ChaCha20-Poly1305 (RFC 8439) encrypts the payload, and authenticates it together with the length. The nonce counts
// the frames of one direction of one connection, whose key is used for nothing else. So each frame is valid in one
// place only: nothing can be injected, changed, repeated, dropped or reordered in between without breaking the
// connection. A length beyond the limit is refused before anything is allocated for it.
//
// Thread-safety: one thread per object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "net/auth/secret_key.h"

namespace tutti::auth {

inline constexpr std::size_t kFrameTagBytes = 16;
inline constexpr std::size_t kFrameHeaderBytes = 4 + kFrameTagBytes;
// One blob of 1 MiB and its description.
inline constexpr std::size_t kMaxFramePayload = (std::size_t{1} << 20) + 4096;

class FrameSealer {
 public:
  explicit FrameSealer(SecretKey key) : key_(key) {}

  // Appends the frame to `out`. REQUIRES: payload.size() <= kMaxFramePayload.
  void Seal(std::span<const std::byte> payload, std::vector<std::byte>& out);

 private:
  SecretKey key_;
  std::uint64_t counter_ = 0;
};

class FrameOpener {
 public:
  explicit FrameOpener(SecretKey key, std::size_t max_payload = kMaxFramePayload)
      : key_(key), max_payload_(max_payload) {}

  // Takes bytes as they come, in pieces of any size. REQUIRES: Next() was called until it had nothing more, so that at
  // most one unfinished frame and `bytes` are held.
  void Feed(std::span<const std::byte> bytes);
  // The next whole frame's payload, once; nullopt when more bytes are needed or the stream is broken.
  std::optional<std::vector<std::byte>> Next();
  // A wrong tag or length was seen. Nothing more will come.
  bool broken() const { return broken_; }

 private:
  SecretKey key_;
  std::size_t max_payload_;
  std::uint64_t counter_ = 0;
  std::vector<std::byte> buffer_;
  std::size_t taken_ = 0;  // bytes of buffer_ that were given out
  bool broken_ = false;
};

}  // namespace tutti::auth
