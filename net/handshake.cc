#include "net/handshake.h"

#include <algorithm>
#include <cstring>

#include "net/wire.h"

namespace tutti {
namespace {

// The last byte is the version of the handshake and of the frames that follow it.
constexpr std::string_view kMagic("tuttiHS\x01", kMagicBytes);

template <std::size_t N>
std::array<std::byte, N> Fixed(const ByteWriter& writer) {
  std::array<std::byte, N> bytes{};
  std::copy(writer.bytes().begin(), writer.bytes().end(), bytes.begin());
  return bytes;
}

bool TakeMagic(ByteReader& reader) { return std::ranges::equal(reader.Bytes(kMagicBytes), BytesOf(kMagic)); }

Mac Proof(const SecretKey& key, std::string_view label, const ClientHello& hello, const Nonce& server_nonce) {
  return KeyedHash<sizeof(Mac)>(key, label, {Encode(hello), server_nonce});
}

}  // namespace

Nonce RandomNonce() {
  EnsureSodium();
  Nonce nonce;
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

bool SameMac(const Mac& a, const Mac& b) { return sodium_memcmp(a.data(), b.data(), a.size()) == 0; }

std::array<std::byte, kClientHelloBytes> Encode(const ClientHello& hello) {
  ByteWriter writer;
  writer.Bytes(BytesOf(kMagic));
  writer.Number(static_cast<std::uint8_t>(hello.purpose));
  writer.Number(hello.rank);
  writer.Number(hello.nranks);
  writer.Bytes(hello.nonce);
  return Fixed<kClientHelloBytes>(writer);
}

std::array<std::byte, kServerHelloBytes> Encode(const ServerHello& hello) {
  ByteWriter writer;
  writer.Bytes(BytesOf(kMagic));
  writer.Bytes(hello.nonce);
  writer.Bytes(hello.proof);
  return Fixed<kServerHelloBytes>(writer);
}

std::optional<ClientHello> DecodeClientHello(std::span<const std::byte, kClientHelloBytes> bytes) {
  ByteReader reader(bytes);
  if (!TakeMagic(reader)) return std::nullopt;
  const auto purpose = reader.Number<std::uint8_t>();
  if (purpose < static_cast<std::uint8_t>(Purpose::rendezvous) || purpose > static_cast<std::uint8_t>(Purpose::reunion)) {
    return std::nullopt;
  }
  ClientHello hello{.purpose = static_cast<Purpose>(purpose)};
  hello.rank = reader.Number<std::uint32_t>();
  hello.nranks = reader.Number<std::uint32_t>();
  hello.nonce = reader.Array<sizeof(Nonce)>();
  if (!reader.Complete() || hello.nranks > kMaxRanks || hello.rank >= hello.nranks) return std::nullopt;
  return hello;
}

std::optional<ServerHello> DecodeServerHello(std::span<const std::byte, kServerHelloBytes> bytes) {
  ByteReader reader(bytes);
  if (!TakeMagic(reader)) return std::nullopt;
  ServerHello hello;
  hello.nonce = reader.Array<sizeof(Nonce)>();
  hello.proof = reader.Array<sizeof(Mac)>();
  return reader.Complete() ? std::optional(hello) : std::nullopt;
}

Mac ServerProof(const SecretKey& key, const ClientHello& hello, const Nonce& server_nonce) {
  return Proof(key, "tutti server proof", hello, server_nonce);
}

Mac ClientProof(const SecretKey& key, const ClientHello& hello, const Nonce& server_nonce) {
  return Proof(key, "tutti client proof", hello, server_nonce);
}

SessionKeys DeriveSessionKeys(const SecretKey& key, const ClientHello& hello, const Nonce& server_nonce) {
  const auto bytes = Encode(hello);
  return {DeriveKey(key, "tutti client to server", {bytes, server_nonce}),
          DeriveKey(key, "tutti server to client", {bytes, server_nonce})};
}

}  // namespace tutti
