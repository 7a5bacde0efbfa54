#include "src/bootstrap/shrink/messages.h"

#include <cstring>

#include "net/auth/handshake.h"
#include "net/wire.h"

namespace tutti::shrink {
namespace {

constexpr std::size_t kLongestMessage = 2048;

enum class Kind : std::uint8_t { presence = 1, following, decision, joined };

net::ByteWriter Begin(Kind kind) {
  net::ByteWriter writer;
  writer.Number(static_cast<std::uint8_t>(kind));
  return writer;
}

bool Is(net::ByteReader& reader, Kind kind) { return reader.Number<std::uint8_t>() == static_cast<std::uint8_t>(kind); }

void WriteRanks(net::ByteWriter& writer, const std::vector<int>& ranks) {
  writer.Number(static_cast<std::uint32_t>(ranks.size()));
  for (const int rank : ranks) writer.Number(static_cast<std::uint32_t>(rank));
}

std::optional<std::vector<int>> ReadRanks(net::ByteReader& reader) {
  const auto count = reader.Number<std::uint32_t>();
  if (count > auth::kMaxRanks) return std::nullopt;
  std::vector<int> ranks;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto rank = reader.Number<std::uint32_t>();
    if (reader.failed() || rank >= auth::kMaxRanks) return std::nullopt;
    ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

}  // namespace

std::vector<std::byte> Encode(const Presence& message) {
  auto writer = Begin(Kind::presence);
  writer.Number(static_cast<std::uint8_t>(message.leads));
  WriteRanks(writer, message.excluded);
  WriteRanks(writer, message.ended);
  return writer.Take();
}

std::vector<std::byte> Encode(const Following& message) {
  auto writer = Begin(Kind::following);
  writer.Number(static_cast<std::uint32_t>(message.leader));
  return writer.Take();
}

std::vector<std::byte> Encode(const Decision& message) {
  auto writer = Begin(Kind::decision);
  writer.Number(static_cast<std::uint8_t>(message.code));
  writer.Text(message.message, kLongestMessage);
  WriteRanks(writer, message.members);
  writer.Bytes(std::as_bytes(std::span(&message.id, 1)));
  return writer.Take();
}

std::vector<std::byte> Encode(const Joined&) { return Begin(Kind::joined).Take(); }

std::optional<Presence> DecodePresence(std::span<const std::byte> payload) {
  net::ByteReader reader(payload);
  if (!Is(reader, Kind::presence)) return std::nullopt;
  const auto leads = reader.Number<std::uint8_t>();
  auto excluded = ReadRanks(reader);
  if (leads > 1 || !excluded) return std::nullopt;
  auto ended = ReadRanks(reader);
  if (!ended || !reader.Complete()) return std::nullopt;
  return Presence{leads == 1, std::move(*excluded), std::move(*ended)};
}

std::optional<Following> DecodeFollowing(std::span<const std::byte> payload) {
  net::ByteReader reader(payload);
  if (!Is(reader, Kind::following)) return std::nullopt;
  const auto leader = reader.Number<std::uint32_t>();
  if (!reader.Complete() || leader >= auth::kMaxRanks) return std::nullopt;
  return Following{static_cast<int>(leader)};
}

std::optional<Decision> DecodeDecision(std::span<const std::byte> payload) {
  net::ByteReader reader(payload);
  if (!Is(reader, Kind::decision)) return std::nullopt;
  Decision decision;
  const auto code = reader.Number<std::uint8_t>();
  decision.message = reader.Text(kLongestMessage);
  auto members = ReadRanks(reader);
  const auto id = reader.Bytes(sizeof decision.id);
  if (code >= tuttiNumResults || !members || id.empty() || !reader.Complete()) return std::nullopt;
  decision.code = static_cast<tuttiResult_t>(code);
  decision.members = std::move(*members);
  std::memcpy(&decision.id, id.data(), sizeof decision.id);
  return decision;
}

std::optional<Joined> DecodeJoined(std::span<const std::byte> payload) {
  net::ByteReader reader(payload);
  if (!Is(reader, Kind::joined) || !reader.Complete()) return std::nullopt;
  return Joined{};
}

}  // namespace tutti::shrink
