#include "src/bootstrap/unique_id.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace tutti::bootstrap {
namespace {

constexpr std::string_view kMagic("tuttiID\x01", 8);
constexpr std::size_t kChecksumBytes = 8;
constexpr std::size_t kChecked = TUTTI_UNIQUE_ID_BYTES - kChecksumBytes;
constexpr std::uint8_t kServedByRank0 = 1;
constexpr std::uint8_t kListenEverywhere = 2;
constexpr std::uint8_t kNeedsJobSecret = 4;
constexpr std::uint8_t kV4 = 4;
constexpr std::uint8_t kV6 = 6;

std::array<std::byte, kChecksumBytes> Checksum(std::span<const std::byte> bytes) {
  const auto hash = auth::KeyedHash<crypto_generichash_BYTES>(auth::SecretKey(), "tutti id checksum", {bytes});
  std::array<std::byte, kChecksumBytes> sum;
  std::copy_n(hash.begin(), sum.size(), sum.begin());
  return sum;
}

}  // namespace

void WriteAddress(net::ByteWriter& writer, const net::SocketAddress& address) {
  writer.Number(address.v6 ? kV6 : kV4);
  writer.Bytes(std::as_bytes(std::span(address.ip)).first(address.v6 ? 16 : 4));
  if (address.v6) writer.Number(address.scope);
  writer.Number(address.port);
}

std::optional<net::SocketAddress> ReadAddress(net::ByteReader& reader) {
  net::SocketAddress address;
  const auto family = reader.Number<std::uint8_t>();
  if (family != kV4 && family != kV6) return std::nullopt;
  address.v6 = family == kV6;
  const auto ip = reader.Bytes(address.v6 ? 16 : 4);
  std::transform(ip.begin(), ip.end(), address.ip.begin(),
                 [](std::byte byte) { return std::to_integer<std::uint8_t>(byte); });
  if (address.v6) address.scope = reader.Number<std::uint32_t>();
  address.port = reader.Number<std::uint16_t>();
  return reader.failed() || address.port == 0 ? std::nullopt : std::optional(address);
}

JoinTicket DecodeUniqueId(const tuttiUniqueId& id) {
  const auto bytes = std::as_bytes(std::span(id.internal));
  if (std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; })) {
    Throw(tuttiInvalidArgument,
          "the unique id is all zero: tuttiGetUniqueId did not fill it, or it was not passed on to this rank");
  }
  if (!std::ranges::equal(bytes.first(kMagic.size()), net::BytesOf(kMagic))) {
    const bool other_version =
        std::ranges::equal(bytes.first(kMagic.size() - 1), net::BytesOf(kMagic.substr(0, kMagic.size() - 1)));
    Throw(tuttiInvalidArgument, "{}",
          other_version ? "the unique id was made by another version of Tutti; all ranks must load the same one"
                        : "the unique id was not made by tuttiGetUniqueId");
  }
  if (!std::ranges::equal(bytes.last(kChecksumBytes), Checksum(bytes.first(kChecked)))) {
    Throw(tuttiInvalidArgument, "the unique id is damaged (wrong checksum); pass all {} bytes on as they are",
          TUTTI_UNIQUE_ID_BYTES);
  }
  // The checksum is not secret, so the rest may still come from anyone.
  net::ByteReader reader(bytes.first(kChecked).subspan(kMagic.size()));
  JoinTicket ticket;
  const auto flags = reader.Number<std::uint8_t>();
  const auto count = reader.Number<std::uint8_t>();
  ticket.served_by_rank0 = (flags & kServedByRank0) != 0;
  ticket.listen_everywhere = (flags & kListenEverywhere) != 0;
  ticket.needs_job_secret = (flags & kNeedsJobSecret) != 0;
  ticket.job = reader.Array<16>();
  ticket.secret = auth::SecretKey(reader.Bytes(auth::SecretKey::kBytes).first<auth::SecretKey::kBytes>());
  for (int i = 0; i < count; ++i) {
    const auto address = ReadAddress(reader);
    if (!address)
      Throw(tuttiInvalidArgument, "the unique id holds a malformed address; it was not made by tuttiGetUniqueId");
    ticket.addresses.push_back(*address);
  }
  if (ticket.addresses.empty())
    Throw(tuttiInvalidArgument, "the unique id holds no address; it was not made by tuttiGetUniqueId");
  return ticket;
}

tuttiUniqueId EncodeUniqueId(const JoinTicket& ticket) {
  if (ticket.addresses.empty()) Throw(tuttiInternalError, "a unique id needs an address");
  net::ByteWriter addresses;
  std::uint8_t count = 0;
  for (const auto& address : ticket.addresses) {
    net::ByteWriter one;
    WriteAddress(one, address);
    constexpr std::size_t kBeforeAddresses = 8 + 2 + 16 + auth::SecretKey::kBytes;
    if (kBeforeAddresses + addresses.size() + one.size() > kChecked) break;
    addresses.Bytes(one.bytes());
    ++count;
  }
  net::ByteWriter writer;
  writer.Reserve(TUTTI_UNIQUE_ID_BYTES);
  writer.Bytes(net::BytesOf(kMagic));
  writer.Number(static_cast<std::uint8_t>((ticket.served_by_rank0 ? kServedByRank0 : 0) |
                                          (ticket.listen_everywhere ? kListenEverywhere : 0) |
                                          (ticket.needs_job_secret ? kNeedsJobSecret : 0)));
  writer.Number(count);
  writer.Bytes(ticket.job);
  writer.Bytes(ticket.secret.bytes());
  writer.Bytes(addresses.bytes());
  auto bytes = writer.Take();
  bytes.resize(kChecked);
  tuttiUniqueId id;
  std::memcpy(id.internal, bytes.data(), kChecked);
  SetChecksum(id);
  sodium_memzero(bytes.data(), bytes.size());
  return id;
}

void SetChecksum(tuttiUniqueId& id) {
  const auto sum = Checksum(std::as_bytes(std::span(id.internal)).first(kChecked));
  std::memcpy(id.internal + kChecked, sum.data(), sum.size());
}

auth::SecretKey RendezvousKey(const JoinTicket& ticket) {
  return auth::DeriveKey(ticket.secret, "tutti rendezvous", {ticket.job});
}

auth::SecretKey HubKey(const auth::SecretKey& rendezvous_key, const std::array<std::byte, 16>& session) {
  return auth::DeriveKey(rendezvous_key, "tutti hub", {session});
}

}  // namespace tutti::bootstrap
