#include "net/frame.h"

#include "net/wire.h"

namespace tutti {
namespace {

using FrameMac = std::array<std::byte, kFrameMacBytes>;

FrameMac MacOf(const SecretKey& key, std::uint64_t counter, std::span<const std::byte> payload) {
  ByteWriter place;
  place.Number(counter);
  place.Number(static_cast<std::uint32_t>(payload.size()));
  return KeyedHash<kFrameMacBytes>(key, "tutti frame", {place.bytes(), payload});
}

}  // namespace

void FrameSealer::Seal(std::span<const std::byte> payload, std::vector<std::byte>& out) {
  if (payload.size() > kMaxFramePayload) {
    Throw(tuttiInternalError, "a bootstrap message of {} bytes is beyond its limit of {}", payload.size(),
          kMaxFramePayload);
  }
  const auto mac = MacOf(key_, counter_++, payload);
  ByteWriter header;
  header.Number(static_cast<std::uint32_t>(payload.size()));
  out.insert(out.end(), header.bytes().begin(), header.bytes().end());
  out.insert(out.end(), mac.begin(), mac.end());
  out.insert(out.end(), payload.begin(), payload.end());
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
  ByteReader reader(input);
  const std::size_t size = reader.Number<std::uint32_t>();
  const auto mac = reader.Array<kFrameMacBytes>();
  if (size > max_payload_) {
    broken_ = true;
    return std::nullopt;
  }
  const auto payload = reader.Bytes(size);
  if (reader.failed()) return std::nullopt;
  const auto expected = MacOf(key_, counter_, payload);
  if (sodium_memcmp(expected.data(), mac.data(), mac.size()) != 0) {
    broken_ = true;
    return std::nullopt;
  }
  ++counter_;
  taken_ += kFrameHeaderBytes + size;
  return std::vector<std::byte>(payload.begin(), payload.end());
}

}  // namespace tutti
