#include "net/auth/handshake.h"

#include <algorithm>
#include <cstring>

#include "net/wire.h"

namespace tutti::auth {
namespace {

// The last byte is the version of the handshake and of the frames that follow it.
constexpr std::string_view kMagic("tuttiHS\x03", kMagicBytes);

template <std::size_t N>
std::array<std::byte, N> Fixed(const net::ByteWriter& writer) {
  std::array<std::byte, N> bytes{};
  std::copy(writer.bytes().begin(), writer.bytes().end(), bytes.begin());
  return bytes;
}

bool TakeMagic(net::ByteReader& reader) { return std::ranges::equal(reader.Bytes(kMagicBytes), net::BytesOf(kMagic)); }

Mac Proof(const SecretKey& key, std::string_view label, const ClientHello& client, const ServerHello& server) {
  return KeyedHash<sizeof(Mac)>(key, label, {Encode(client), Encode(server)});
}

unsigned char* Bytes(Share& share) { return reinterpret_cast<unsigned char*>(share.data()); }

}  // namespace

KeyName NameOf(const SecretKey& key, Purpose purpose) {
  if (purpose == Purpose::rendezvous || purpose == Purpose::hub) return {};
  return KeyedHash<sizeof(KeyName)>(key, "tutti key name", {});
}

KeyPair KeyPair::Fresh() {
  KeyPair pair{.secret = SecretKey::Random()};
  crypto_scalarmult_base(Bytes(pair.share), pair.secret.data());
  return pair;
}

bool SameMac(const Mac& a, const Mac& b) { return sodium_memcmp(a.data(), b.data(), a.size()) == 0; }

std::array<std::byte, kClientHelloBytes> Encode(const ClientHello& hello) {
  net::ByteWriter writer;
  writer.Bytes(net::BytesOf(kMagic));
  writer.Number(static_cast<std::uint8_t>(hello.purpose));
  writer.Number(hello.rank);
  writer.Number(hello.callee);
  writer.Number(hello.nranks);
  writer.Bytes(hello.key_name);
  writer.Bytes(hello.share);
  return Fixed<kClientHelloBytes>(writer);
}

std::array<std::byte, kServerHelloBytes> Encode(const ServerHello& hello) {
  net::ByteWriter writer;
  writer.Bytes(net::BytesOf(kMagic));
  writer.Number(hello.rank);
  writer.Bytes(hello.share);
  return Fixed<kServerHelloBytes>(writer);
}

std::optional<ClientHello> DecodeClientHello(std::span<const std::byte, kClientHelloBytes> bytes) {
  net::ByteReader reader(bytes);
  if (!TakeMagic(reader)) return std::nullopt;
  const auto purpose = reader.Number<std::uint8_t>();
  if (purpose < static_cast<std::uint8_t>(Purpose::rendezvous) ||
      purpose > static_cast<std::uint8_t>(Purpose::membership_agreement)) {
    return std::nullopt;
  }
  ClientHello hello{.purpose = static_cast<Purpose>(purpose)};
  hello.rank = reader.Number<std::uint32_t>();
  hello.callee = reader.Number<std::uint32_t>();
  hello.nranks = reader.Number<std::uint32_t>();
  hello.key_name = reader.Array<sizeof(KeyName)>();
  hello.share = reader.Array<sizeof(Share)>();
  if (!reader.Complete() || hello.nranks > kMaxRanks) return std::nullopt;
  if (hello.rank >= hello.nranks || hello.callee >= hello.nranks) return std::nullopt;
  return hello;
}

std::optional<ServerHello> DecodeServerHello(std::span<const std::byte, kServerHelloBytes> bytes) {
  net::ByteReader reader(bytes);
  if (!TakeMagic(reader)) return std::nullopt;
  ServerHello hello;
  hello.rank = reader.Number<std::uint32_t>();
  hello.share = reader.Array<sizeof(Share)>();
  return reader.Complete() && hello.rank < kMaxRanks ? std::optional(hello) : std::nullopt;
}

Mac ClientProof(const SecretKey& key, const ClientHello& client, const ServerHello& server) {
  return Proof(key, "tutti client proof", client, server);
}

Mac ServerProof(const SecretKey& key, const ClientHello& client, const ServerHello& server) {
  return Proof(key, "tutti server proof", client, server);
}

std::optional<SessionKeys> DeriveSessionKeys(const SecretKey& key, const ClientHello& client, const ServerHello& server,
                                             const SecretKey& own, const Share& theirs) {
  EnsureSodium();
  Share common;
  if (crypto_scalarmult(Bytes(common), own.data(), reinterpret_cast<const unsigned char*>(theirs.data())) != 0) {
    return std::nullopt;
  }
  const auto session = DeriveKey(key, "tutti session", {Encode(client), Encode(server), common});
  sodium_memzero(common.data(), common.size());
  return SessionKeys{DeriveKey(session, "tutti client to server", {}),
                     DeriveKey(session, "tutti server to client", {})};
}

}  // namespace tutti::auth
