#include "transports/ucx/messages.h"

#include <algorithm>
#include <utility>

#include "net/wire.h"

namespace tutti::ucx {
namespace {

// Not 0, which an empty input reads as.
enum class Kind : std::uint8_t { greeting = 1, leaving, heard, forwarded, gave_up };

void Write(net::ByteWriter& writer, const UcxGreeting& greeting) {
  writer.Number(static_cast<std::uint8_t>(Kind::greeting));
  writer.Number(greeting.token);
  writer.Number(greeting.bytes);
  writer.Bytes(greeting.part);
}
void Write(net::ByteWriter& writer, const UcxLeaving& leaving) {
  writer.Number(static_cast<std::uint8_t>(Kind::leaving));
  writer.Number(leaving.sent);
}
void Write(net::ByteWriter& writer, const UcxHeard& /*heard*/) {
  writer.Number(static_cast<std::uint8_t>(Kind::heard));
}
void Write(net::ByteWriter& writer, const UcxForwarded& message) {
  writer.Number(static_cast<std::uint8_t>(Kind::forwarded));
  writer.Number(message.before);
  message.forwarded.Write(writer);
}
void Write(net::ByteWriter& writer, const tcp::GaveUp& gave_up) {
  writer.Number(static_cast<std::uint8_t>(Kind::gave_up));
  gave_up.Write(writer);
}

std::optional<UcxMessage> ReadGreeting(net::ByteReader& reader) {
  UcxGreeting greeting;
  greeting.token = reader.Number<std::uint64_t>();
  greeting.bytes = reader.Number<std::uint32_t>();
  const auto part = reader.Rest();
  greeting.part.assign(part.begin(), part.end());
  const bool fits = !part.empty() && part.size() <= UcxGreeting::kMostPart && part.size() <= greeting.bytes &&
                    greeting.bytes <= UcxGreeting::kMostAddress;
  return fits ? std::optional<UcxMessage>(std::move(greeting)) : std::nullopt;
}

std::optional<UcxMessage> Read(net::ByteReader& reader) {
  switch (static_cast<Kind>(reader.Number<std::uint8_t>())) {
    case Kind::greeting: return ReadGreeting(reader);
    case Kind::leaving: return UcxLeaving{reader.Number<std::uint64_t>()};
    case Kind::heard: return UcxHeard{};
    case Kind::forwarded: {
      const auto before = reader.Number<std::uint32_t>();
      return UcxForwarded{before, tcp::Forwarded::Read(reader)};
    }
    case Kind::gave_up: return tcp::GaveUp::Read(reader);
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::byte> Encode(const UcxMessage& message) {
  net::ByteWriter writer;
  std::visit([&](const auto& each) { Write(writer, each); }, message);
  return writer.Take();
}

std::optional<UcxMessage> DecodeUcxMessage(std::span<const std::byte> bytes) {
  net::ByteReader reader(bytes);
  auto message = Read(reader);
  return reader.Complete() ? std::move(message) : std::nullopt;
}

std::vector<UcxGreeting> GreetingsOf(std::uint64_t token, std::span<const std::byte> address) {
  std::vector<UcxGreeting> greetings;
  const auto bytes = static_cast<std::uint32_t>(address.size());
  while (!address.empty()) {
    const auto part = address.first(std::min(address.size(), UcxGreeting::kMostPart));
    greetings.push_back({token, bytes, {part.begin(), part.end()}});
    address = address.subspan(part.size());
  }
  return greetings;
}

}  // namespace tutti::ucx
