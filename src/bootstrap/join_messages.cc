#include "src/bootstrap/join_messages.h"

#include <unistd.h>

#include <algorithm>

#include "base/plain_text.h"
#include "net/auth/frame.h"
#include "net/wire.h"
#include "src/bootstrap/unique_id.h"

namespace tutti::bootstrap {
namespace {

constexpr std::size_t kLongestHost = 64;  // HOST_NAME_MAX of Linux
constexpr std::size_t kLongestMessage = 2048;
constexpr std::size_t kMostAddresses = 8;
constexpr std::size_t kProcessBytes = 4 + kLongestHost + 8;
static_assert(auth::kMaxRanks * kProcessBytes + kLongestMessage + 1024 <= auth::kMaxFramePayload,
              "a verdict must fit in a frame");

enum class Kind : std::uint8_t { join_request = 1, impatience, verdict, contribution, parts, failure };

net::ByteWriter Begin(Kind kind) {
  net::ByteWriter writer;
  writer.Number(static_cast<std::uint8_t>(kind));
  return writer;
}

bool Is(net::ByteReader& reader, Kind kind) { return reader.Number<std::uint8_t>() == static_cast<std::uint8_t>(kind); }

template <typename T>
std::optional<T> IfComplete(const net::ByteReader& reader, T message) {
  return reader.Complete() ? std::optional<T>(std::move(message)) : std::nullopt;
}

void WriteAddresses(net::ByteWriter& writer, const std::vector<net::SocketAddress>& addresses) {
  const auto count = std::min(addresses.size(), kMostAddresses);
  writer.Number(static_cast<std::uint8_t>(count));
  for (std::size_t i = 0; i < count; ++i) WriteAddress(writer, addresses[i]);
}

std::optional<std::vector<net::SocketAddress>> ReadAddresses(net::ByteReader& reader) {
  const auto count = reader.Number<std::uint8_t>();
  if (count > kMostAddresses) return std::nullopt;
  std::vector<net::SocketAddress> addresses;
  for (int i = 0; i < count; ++i) {
    const auto address = ReadAddress(reader);
    if (!address) return std::nullopt;
    addresses.push_back(*address);
  }
  return addresses;
}

void WriteProcess(net::ByteWriter& writer, const Process& process) {
  writer.Text(process.host, kLongestHost);
  writer.Number(static_cast<std::uint64_t>(process.pid));
}

Process ReadProcess(net::ByteReader& reader) {
  Process process;
  process.host = reader.Text(kLongestHost);
  process.pid = static_cast<std::int64_t>(reader.Number<std::uint64_t>());
  return process;
}

std::optional<tuttiResult_t> ReadCode(net::ByteReader& reader) {
  const auto code = reader.Number<std::uint8_t>();
  return code < tuttiNumResults ? std::optional(static_cast<tuttiResult_t>(code)) : std::nullopt;
}

void WriteBlob(net::ByteWriter& writer, std::span<const std::byte> blob) {
  writer.Number(static_cast<std::uint32_t>(blob.size()));
  writer.Bytes(blob);
}

std::vector<std::byte> ReadBlob(net::ByteReader& reader) {
  const auto bytes = reader.Bytes(reader.Number<std::uint32_t>());
  return {bytes.begin(), bytes.end()};
}

}  // namespace

Process Process::Current() {
  std::array<char, kLongestHost + 1> host{};
  gethostname(host.data(), host.size() - 1);
  return {host.data(), getpid()};
}

std::string Describe(int rank, const Process& process) {
  return fmt::format("rank {} (host {}, pid {})", rank, Printable(process.host, kLongestHost), process.pid);
}

std::string DescribeRanks(const std::vector<int>& ranks) {
  constexpr std::size_t kNamed = 16;
  const auto named = std::min(ranks.size(), kNamed);
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < named; ++i) {
    const bool last = i + 1 == ranks.size();
    text += fmt::format("{}{}", i == 0 ? "" : last ? " and " : ", ", ranks[i]);
  }
  if (named < ranks.size()) text += fmt::format(" and {} more", ranks.size() - named);
  return text;
}

std::string VersionText(std::uint32_t code) {
  return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

std::vector<std::byte> Encode(const JoinRequest& message) {
  auto writer = Begin(Kind::join_request);
  writer.Number(message.version);
  WriteProcess(writer, message.process);
  WriteAddresses(writer, message.hub);
  return writer.Take();
}

std::vector<std::byte> Encode(const TimeoutQuery&) { return Begin(Kind::impatience).Take(); }

std::vector<std::byte> Encode(const Verdict& message) {
  auto writer = Begin(Kind::verdict);
  writer.Number(static_cast<std::uint8_t>(message.code));
  writer.Text(message.message, kLongestMessage);
  writer.Bytes(message.session);
  WriteAddresses(writer, message.hub);
  writer.Number(static_cast<std::uint32_t>(message.roster.size()));
  for (const auto& process : message.roster) WriteProcess(writer, process);
  return writer.Take();
}

std::vector<std::byte> Encode(const Contribution& message) {
  auto writer = Begin(Kind::contribution);
  writer.Number(message.sequence);
  WriteBlob(writer, message.blob);
  return writer.Take();
}

std::vector<std::byte> Encode(const Parts& message) {
  auto writer = Begin(Kind::parts);
  writer.Number(message.sequence);
  writer.Number(message.first);
  writer.Number(static_cast<std::uint32_t>(message.blobs.size()));
  for (const auto& blob : message.blobs) WriteBlob(writer, blob);
  return writer.Take();
}

std::vector<std::byte> Encode(const Failure& message) {
  auto writer = Begin(Kind::failure);
  writer.Number(static_cast<std::uint8_t>(message.code));
  writer.Text(message.message, kLongestMessage);
  return writer.Take();
}

std::optional<JoinRequest> DecodeJoinRequest(std::span<const std::byte> payload) {
  net::ByteReader reader(payload);
  if (!Is(reader, Kind::join_request)) return std::nullopt;
  JoinRequest message;
  message.version = reader.Number<std::uint32_t>();
  message.process = ReadProcess(reader);
  if (message.version != TUTTI_VERSION_CODE) {
    return reader.failed() ? std::nullopt : std::optional(message);
  }
  auto hub = ReadAddresses(reader);
  if (!hub) return std::nullopt;
  message.hub = std::move(*hub);
  return IfComplete(reader, std::move(message));
}

std::optional<TimeoutQuery> DecodeImpatience(std::span<const std::byte> payload) {
  net::ByteReader reader(payload);
  return Is(reader, Kind::impatience) ? IfComplete(reader, TimeoutQuery{}) : std::nullopt;
}

std::optional<Verdict> DecodeVerdict(std::span<const std::byte> payload) {
  net::ByteReader reader(payload);
  if (!Is(reader, Kind::verdict)) return std::nullopt;
  Verdict message;
  const auto code = ReadCode(reader);
  if (!code) return std::nullopt;
  message.code = *code;
  message.message = reader.Text(kLongestMessage);
  message.session = reader.Array<16>();
  auto hub = ReadAddresses(reader);
  if (!hub) return std::nullopt;
  message.hub = std::move(*hub);
  const auto count = reader.Number<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && !reader.failed(); ++i) message.roster.push_back(ReadProcess(reader));
  return IfComplete(reader, std::move(message));
}

std::optional<Contribution> DecodeContribution(std::span<const std::byte> payload) {
  net::ByteReader reader(payload);
  if (!Is(reader, Kind::contribution)) return std::nullopt;
  Contribution message;
  message.sequence = reader.Number<std::uint64_t>();
  message.blob = ReadBlob(reader);
  return IfComplete(reader, std::move(message));
}

std::optional<Parts> DecodeParts(std::span<const std::byte> payload) {
  net::ByteReader reader(payload);
  if (!Is(reader, Kind::parts)) return std::nullopt;
  Parts message;
  message.sequence = reader.Number<std::uint64_t>();
  message.first = reader.Number<std::uint32_t>();
  const auto count = reader.Number<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && !reader.failed(); ++i) message.blobs.push_back(ReadBlob(reader));
  return IfComplete(reader, std::move(message));
}

std::optional<Failure> DecodeFailure(std::span<const std::byte> payload) {
  net::ByteReader reader(payload);
  if (!Is(reader, Kind::failure)) return std::nullopt;
  Failure message;
  const auto code = ReadCode(reader);
  if (!code) return std::nullopt;
  message.code = *code;
  message.message = reader.Text(kLongestMessage);
  return IfComplete(reader, std::move(message));
}

}  // namespace tutti::bootstrap
