#include "transports/side/messages.h"

#include <utility>

#include "net/wire.h"

namespace tutti::side {
namespace {

// The first byte: the message's place in the variant, from 1 on. An empty input reads as 0.
constexpr std::size_t kFirst = 1;

void Write(net::ByteWriter& writer, const Own& own) { writer.Bytes(own.bytes); }
void Write(net::ByteWriter& writer, const Leaving& leaving) { writer.Number(leaving.sent); }
void Write(net::ByteWriter& /*writer*/, const Heard& /*heard*/) {}
void Write(net::ByteWriter& writer, const Forwarded& forwarded) {
  writer.Number(forwarded.before);
  writer.Bytes(forwarded.message);
}
void Write(net::ByteWriter& writer, const GaveUp& gave_up) { writer.Text(gave_up.why, GaveUp::kLongestWhy); }

std::vector<std::byte> Rest(net::ByteReader& reader) {
  const auto rest = reader.Rest();
  return {rest.begin(), rest.end()};
}

std::optional<Message> Read(net::ByteReader& reader) {
  switch (reader.Number<std::uint8_t>()) {
    case kFirst: return Own{Rest(reader)};
    case kFirst + 1: return Leaving{reader.Number<std::uint64_t>()};
    case kFirst + 2: return Heard{};
    case kFirst + 3: {
      const auto before = reader.Number<std::uint32_t>();
      return Forwarded{before, Rest(reader)};
    }
    case kFirst + 4: return GaveUp{reader.Text(GaveUp::kLongestWhy)};
    default: return std::nullopt;
  }
}

}  // namespace

std::vector<std::byte> Encode(const Message& message) {
  net::ByteWriter writer;
  writer.Number(static_cast<std::uint8_t>(kFirst + message.index()));
  std::visit([&](const auto& each) { Write(writer, each); }, message);
  return writer.Take();
}

std::optional<Message> Decode(std::span<const std::byte> bytes) {
  net::ByteReader reader(bytes);
  auto message = Read(reader);
  return reader.Complete() ? std::move(message) : std::nullopt;
}

}  // namespace tutti::side
