#include "net/auth/frame.h"

#include <algorithm>
#include <array>

#include "net/wire.h"

namespace tutti::auth {
namespace {

static_assert(kFrameTagBytes == crypto_aead_chacha20poly1305_ietf_ABYTES);
static_assert(SecretKey::kBytes == crypto_aead_chacha20poly1305_ietf_KEYBYTES);

constexpr std::size_t kLengthBytes = 4;

using FrameNonce = std::array<std::byte, crypto_aead_chacha20poly1305_ietf_NPUBBYTES>;

FrameNonce NonceOf(std::uint64_t counter) {
  FrameNonce nonce{};
  for (std::size_t i = 0; i < sizeof counter; ++i) nonce[i] = static_cast<std::byte>(counter >> (8 * i));
  return nonce;
}

const unsigned char* Raw(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}
unsigned char* Raw(std::span<std::byte> bytes) { return reinterpret_cast<unsigned char*>(bytes.data()); }

}  // namespace

void FrameSealer::Seal(std::span<const std::byte> payload, std::vector<std::byte>& out) {
  if (payload.size() > kMaxFramePayload) {
    Throw(tuttiInternalError, "a bootstrap message of {} bytes is beyond its limit of {}", payload.size(),
          kMaxFramePayload);
  }
  EnsureSodium();
  net::ByteWriter length;
  length.Number(static_cast<std::uint32_t>(payload.size()));
  const auto nonce = NonceOf(counter_++);
  const std::size_t begin = out.size();
  out.resize(begin + kFrameHeaderBytes + payload.size());
  const auto frame = std::span(out).subspan(begin);
  std::ranges::copy(length.bytes(), frame.begin());
  crypto_aead_chacha20poly1305_ietf_encrypt_detached(
      Raw(frame.subspan(kFrameHeaderBytes)), Raw(frame.subspan(kLengthBytes)), nullptr, Raw(payload), payload.size(),
      Raw(frame), kLengthBytes, nullptr, Raw(nonce), key_.data());
}

void FrameOpener::Feed(std::span<const std::byte> bytes) {
  if (broken_) return;
  buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(taken_));
  taken_ = 0;
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

std::optional<std::vector<std::byte>> FrameOpener::Next() {
  if (broken_) return std::nullopt;
  const auto input = std::span<const std::byte>(buffer_).subspan(taken_);
  if (input.size() < kFrameHeaderBytes) return std::nullopt;
  net::ByteReader reader(input);
  const std::size_t size = reader.Number<std::uint32_t>();
  const auto tag = reader.Bytes(kFrameTagBytes);
  if (size > max_payload_) {
    broken_ = true;
    return std::nullopt;
  }
  const auto sealed = reader.Bytes(size);
  if (reader.failed()) return std::nullopt;
  EnsureSodium();
  const auto nonce = NonceOf(counter_);
  std::vector<std::byte> payload(size);
  if (crypto_aead_chacha20poly1305_ietf_decrypt_detached(Raw(std::span(payload)), nullptr, Raw(sealed), size, Raw(tag),
                                                         Raw(input), kLengthBytes, Raw(nonce), key_.data()) != 0) {
    broken_ = true;
    return std::nullopt;
  }
  ++counter_;
  taken_ += kFrameHeaderBytes + size;
  return payload;
}

}  // namespace tutti::auth
