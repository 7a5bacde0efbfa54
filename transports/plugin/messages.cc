#include "transports/plugin/messages.h"

#include <utility>

#include "net/wire.h"

namespace tutti::plugin {
namespace {

// The first byte: the message's place in the variant, from 1 on. An empty input reads as 0.
constexpr std::size_t kFirst = 1;

void Write(net::ByteWriter& writer, const Greeting& greeting) {
  writer.Number(greeting.token);
  writer.Number(greeting.piece);
  for (const auto& handle : greeting.handles) writer.Bytes(handle);
}
void Write(net::ByteWriter& writer, const Leaving& leaving) { writer.Number(leaving.sent); }
void Write(net::ByteWriter& /*writer*/, const Heard& /*heard*/) {}
void Write(net::ByteWriter& writer, const tcp::Forwarded& forwarded) { forwarded.Write(writer); }
void Write(net::ByteWriter& writer, const tcp::GaveUp& gave_up) { gave_up.Write(writer); }

std::optional<SideMessage> ReadGreeting(net::ByteReader& reader) {
  Greeting greeting;
  greeting.token = reader.Number<std::uint64_t>();
  greeting.piece = reader.Number<std::uint64_t>();
  for (auto& handle : greeting.handles) handle = reader.Array<abi::kHandleBytes>();
  const bool fits = greeting.piece >= kMessageBytes && greeting.piece <= kMostPiece;
  return fits ? std::optional<SideMessage>(greeting) : std::nullopt;
}

std::optional<SideMessage> Read(net::ByteReader& reader) {
  switch (reader.Number<std::uint8_t>()) {
    case kFirst: return ReadGreeting(reader);
    case kFirst + 1: return Leaving{reader.Number<std::uint64_t>()};
    case kFirst + 2: return Heard{};
    case kFirst + 3: return tcp::Forwarded::Read(reader);
    case kFirst + 4: return tcp::GaveUp::Read(reader);
    default: return std::nullopt;
  }
}

}  // namespace

std::vector<std::byte> Encode(const SideMessage& message) {
  net::ByteWriter writer;
  writer.Number(static_cast<std::uint8_t>(kFirst + message.index()));
  std::visit([&](const auto& each) { Write(writer, each); }, message);
  return writer.Take();
}

std::optional<SideMessage> DecodeSideMessage(std::span<const std::byte> bytes) {
  net::ByteReader reader(bytes);
  auto message = Read(reader);
  return reader.Complete() ? std::move(message) : std::nullopt;
}

}  // namespace tutti::plugin
