// How two ends of a new TCP connection prove to each other that they hold the same key, before either believes a byte:
//
//     client                                                     server
//     ClientHello  magic, purpose, rank, nranks, nonce  ------->
//                                     <-------  ServerHello  magic, nonce, MAC("server", purpose, rank, nranks, nonces)
//     ClientProof  MAC("client", the same)              ------->
//
// All three have fixed sizes, so nothing of a stranger's is ever allocated or parsed further. Both nonces are fresh, so
// nothing recorded can be replayed, and both MACs name their side, so neither can be reflected. From then on each
// direction has a key of its own (frame.h). What is sent is proven, not hidden.
//
// Thread-safety: pure functions and value types.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "net/secret_key.h"

namespace tutti {

// What the client wants of the server.
enum class Purpose : std::uint8_t { rendezvous = 1, hub = 2, data = 3, reunion = 4 };

// Keeps hostile numbers out of every table that is sized by ranks, and a roster of as many within one frame.
inline constexpr std::uint32_t kMaxRanks = 8192;

using Nonce = std::array<std::byte, 32>;
using Mac = std::array<std::byte, 32>;

Nonce RandomNonce();
// Constant time.
bool SameMac(const Mac& a, const Mac& b);

struct ClientHello {
  Purpose purpose = Purpose::rendezvous;
  std::uint32_t rank = 0;
  std::uint32_t nranks = 1;
  Nonce nonce{};

  friend bool operator==(const ClientHello&, const ClientHello&) = default;
};

struct ServerHello {
  Nonce nonce{};
  Mac proof{};

  friend bool operator==(const ServerHello&, const ServerHello&) = default;
};

inline constexpr std::size_t kMagicBytes = 8;
inline constexpr std::size_t kClientHelloBytes = kMagicBytes + 1 + 4 + 4 + sizeof(Nonce);
inline constexpr std::size_t kServerHelloBytes = kMagicBytes + sizeof(Nonce) + sizeof(Mac);
inline constexpr std::size_t kClientProofBytes = sizeof(Mac);

std::array<std::byte, kClientHelloBytes> Encode(const ClientHello& hello);
std::array<std::byte, kServerHelloBytes> Encode(const ServerHello& hello);
// nullopt: not ours, another version of the handshake, or numbers out of range (rank < nranks <= kMaxRanks).
std::optional<ClientHello> DecodeClientHello(std::span<const std::byte, kClientHelloBytes> bytes);
std::optional<ServerHello> DecodeServerHello(std::span<const std::byte, kServerHelloBytes> bytes);

Mac ServerProof(const SecretKey& key, const ClientHello& hello, const Nonce& server_nonce);
Mac ClientProof(const SecretKey& key, const ClientHello& hello, const Nonce& server_nonce);

struct SessionKeys {
  SecretKey client_to_server;
  SecretKey server_to_client;
};
SessionKeys DeriveSessionKeys(const SecretKey& key, const ClientHello& hello, const Nonce& server_nonce);

}  // namespace tutti
