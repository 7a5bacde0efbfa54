#include "transports/ucx/messages.h"

#include <algorithm>
#include <utility>

#include "net/wire.h"

namespace tutti::ucx {

std::vector<std::byte> Encode(const UcxGreeting& greeting) {
  net::ByteWriter writer;
  writer.Number(greeting.token);
  writer.Number(greeting.bytes);
  writer.Bytes(greeting.part);
  return writer.Take();
}

std::optional<UcxGreeting> DecodeUcxGreeting(std::span<const std::byte> bytes) {
  net::ByteReader reader(bytes);
  UcxGreeting greeting;
  greeting.token = reader.Number<std::uint64_t>();
  greeting.bytes = reader.Number<std::uint32_t>();
  const auto part = reader.Rest();
  greeting.part.assign(part.begin(), part.end());
  const bool fits = reader.Complete() && !part.empty() && part.size() <= UcxGreeting::kMostPart &&
                    part.size() <= greeting.bytes && greeting.bytes <= UcxGreeting::kMostAddress;
  return fits ? std::optional(std::move(greeting)) : std::nullopt;
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
