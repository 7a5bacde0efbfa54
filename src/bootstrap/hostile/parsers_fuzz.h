// The functions that the fuzz targets run, and also a test with random and damaged inputs (hostile_bytes_test.cc): each
// gives any bytes to one family of parsers and traps when a promise does not hold.
#pragma once

#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "net/auth/frame.h"
#include "net/auth/handshake.h"
#include "net/interfaces.h"
#include "src/bootstrap/join_messages.h"
#include "src/bootstrap/shrink/messages.h"
#include "src/bootstrap/unique_id.h"

namespace tutti::fuzzing {

inline void Require(bool promise) {
  if (!promise) __builtin_trap();
}

inline std::string_view TextOf(std::span<const std::byte> input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}

// The input cut to N bytes, or padded with zeros.
template <std::size_t N>
std::array<std::byte, N> Padded(std::span<const std::byte> input) {
  std::array<std::byte, N> bytes{};
  if (!input.empty()) std::memcpy(bytes.data(), input.data(), std::min(N, input.size()));
  return bytes;
}

inline void DecodeId(const tuttiUniqueId& id) {
  try {
    const auto ticket = bootstrap::DecodeUniqueId(id);
    Require(!ticket.addresses.empty());
    Require(bootstrap::DecodeUniqueId(bootstrap::EncodeUniqueId(ticket)) == ticket);
  } catch (const Error& error) {
    Require(error.code() == tuttiInvalidArgument);
  }
}

inline void UniqueId(std::span<const std::byte> input) {
  tuttiUniqueId id;
  const auto bytes = Padded<sizeof(id.internal)>(input);
  std::memcpy(id.internal, bytes.data(), bytes.size());
  DecodeId(id);
  // Neither magic nor checksum is secret, so a stranger's id may have both right: the parser must handle the rest as
  // well.
  constexpr std::size_t kMagic = 8;
  bootstrap::JoinTicket ticket;
  ticket.addresses = {net::SocketAddress::Loopback(false, 1)};
  id = bootstrap::EncodeUniqueId(ticket);
  std::memcpy(id.internal + kMagic, bytes.data(), bytes.size() - kMagic);
  bootstrap::SetChecksum(id);
  DecodeId(id);

  net::ByteReader reader(input);
  if (const auto address = bootstrap::ReadAddress(reader)) {
    net::ByteWriter writer;
    bootstrap::WriteAddress(writer, *address);
    Require(writer.size() <= input.size() && std::memcmp(writer.bytes().data(), input.data(), writer.size()) == 0);
  }
}

template <typename Message>
void RequireSameAgain(const std::optional<Message>& message, std::span<const std::byte> input) {
  if (!message) return;
  const auto again = Encode(*message);
  Require(again.size() == input.size() && std::memcmp(again.data(), input.data(), again.size()) == 0);
}

inline void Handshake(std::span<const std::byte> input) {
  const auto client_bytes = Padded<auth::kClientHelloBytes>(input);
  if (const auto hello = auth::DecodeClientHello(client_bytes)) {
    Require(hello->rank < hello->nranks && hello->nranks <= auth::kMaxRanks);
    Require(auth::Encode(*hello) == client_bytes);
  }
  const auto server_bytes = Padded<auth::kServerHelloBytes>(input);
  if (const auto hello = auth::DecodeServerHello(server_bytes)) Require(auth::Encode(*hello) == server_bytes);

  // Without the key no one can make a frame, however the bytes are cut.
  const auth::SecretKey key = auth::DeriveKey(auth::SecretKey(), "fuzz", {});
  auth::FrameOpener opener(key);
  const auto cut = input.empty() ? 0 : std::to_integer<std::size_t>(input[0]) % input.size();
  for (const auto piece : {input.first(cut), input.subspan(cut)}) {
    opener.Feed(piece);
    Require(!opener.Next());
  }
}

// Parsers of the contents of proven frames.
inline void Messages(std::span<const std::byte> input) {
  if (const auto request = bootstrap::DecodeJoinRequest(input); request && request->version == TUTTI_VERSION_CODE) {
    RequireSameAgain(request, input);
  }
  RequireSameAgain(bootstrap::DecodeImpatience(input), input);
  RequireSameAgain(bootstrap::DecodeVerdict(input), input);
  RequireSameAgain(bootstrap::DecodeContribution(input), input);
  RequireSameAgain(bootstrap::DecodeParts(input), input);
  RequireSameAgain(bootstrap::DecodeFailure(input), input);
  RequireSameAgain(shrink::DecodePresence(input), input);
  RequireSameAgain(shrink::DecodeFollowing(input), input);
  RequireSameAgain(shrink::DecodeDecision(input), input);
  RequireSameAgain(shrink::DecodeJoined(input), input);
}

inline void Names(std::span<const std::byte> input) {
  const auto text = TextOf(input);
  try {
    const auto filter = net::InterfaceFilter::Parse(text);
    Require(text.empty() || !filter.names.empty());
    for (const auto& name : filter.names) Require(filter.Accepts(name) != filter.exclude);
  } catch (const Error& error) {
    Require(error.code() == tuttiInvalidArgument);
  }
  try {
    const auto place = net::ParseHostPort("TUTTI_COMM_ID", text);
    Require(!place.host.empty() && place.port != 0);
    net::SocketAddress::Parse(place.host, place.port);
  } catch (const Error& error) {
    Require(error.code() == tuttiInvalidUsage);
  }
}

}  // namespace tutti::fuzzing
