#include "transports/plugin/messages.h"

#include "net/wire.h"

namespace tutti::plugin {

std::vector<std::byte> Encode(const Greeting& greeting) {
  net::ByteWriter writer;
  writer.Number(greeting.token);
  writer.Number(greeting.piece);
  for (const auto& handle : greeting.handles) writer.Bytes(handle);
  return writer.Take();
}

std::optional<Greeting> DecodeGreeting(std::span<const std::byte> bytes) {
  net::ByteReader reader(bytes);
  Greeting greeting;
  greeting.token = reader.Number<std::uint64_t>();
  greeting.piece = reader.Number<std::uint64_t>();
  for (auto& handle : greeting.handles) handle = reader.Array<abi::kHandleBytes>();
  const bool fits = reader.Complete() && greeting.piece >= kMessageBytes && greeting.piece <= kMostPiece;
  return fits ? std::optional(greeting) : std::nullopt;
}

}  // namespace tutti::plugin
