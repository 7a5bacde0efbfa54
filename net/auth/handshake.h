// How two ends of a new TCP connection prove to each other that they hold the same key, before either believes a byte:
//
//     client                                                     server
//     ClientHello  magic, purpose, caller, callee, nranks,
//                  name of the key, share  ------->
//                                                  <-------  ServerHello  magic, rank, share
//     ClientProof  MAC("client", both hellos)                     ------->
//                                                  <-------  ServerProof  MAC("server", both hellos)
//
// All four have fixed sizes, so nothing from a stranger is ever allocated or parsed further. Both MACs name their side,
// so neither can be reflected. Both cover caller and callee, so a connection that a man in the middle leads to another
// rank is refused. The client proves itself first, so that a stranger who connects gets nothing at which to test
// guesses of the key. A server that rejects the client's proof answers with a proof of zeros, to inform the client.
//
// The shares are X25519 keys, fresh for every connection, so nothing recorded can be replayed. Each direction has its
// own key (frame.h), made of the common key and of a value that only the two ends have: an attacker who learns the
// job's secret later cannot read a recorded connection.
//
// Thread-safety: pure functions and value types.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "net/auth/secret_key.h"

namespace tutti::auth {

// The client's request to the server.
enum class Purpose : std::uint8_t { rendezvous = 1, hub = 2, data = 3, membership_agreement = 4 };

// Keeps hostile numbers out of every table that is sized by ranks, and a roster of as many within one frame.
inline constexpr std::uint32_t kMaxRanks = 8192;
// The callee of every rank: the rendezvous, and the hub, which is rank 0's.
inline constexpr std::uint32_t kCentre = 0;

// Names a key without revealing it, at a port that serves several. Zero for the rendezvous and the hub, whose ports serve
// one: their key may come from a secret that a person chose, and the name would let a stranger test guesses of it.
using KeyName = std::array<std::byte, 16>;
KeyName NameOf(const SecretKey& key, Purpose purpose);

using Share = std::array<std::byte, 32>;
using Mac = std::array<std::byte, 32>;

// One side's part of a key exchange.
struct KeyPair {
  SecretKey secret;
  Share share{};

  static KeyPair Fresh();
};

// Constant time.
bool SameMac(const Mac& a, const Mac& b);

struct ClientHello {
  Purpose purpose = Purpose::rendezvous;
  std::uint32_t rank = 0;
  std::uint32_t callee = 0;
  std::uint32_t nranks = 1;
  KeyName key_name{};
  Share share{};

  friend bool operator==(const ClientHello&, const ClientHello&) = default;
};

struct ServerHello {
  std::uint32_t rank = 0;  // the rank whose port this is
  Share share{};

  friend bool operator==(const ServerHello&, const ServerHello&) = default;
};

inline constexpr std::size_t kMagicBytes = 8;
inline constexpr std::size_t kClientHelloBytes = kMagicBytes + 1 + 4 + 4 + 4 + sizeof(KeyName) + sizeof(Share);
inline constexpr std::size_t kServerHelloBytes = kMagicBytes + 4 + sizeof(Share);
inline constexpr std::size_t kProofBytes = sizeof(Mac);

std::array<std::byte, kClientHelloBytes> Encode(const ClientHello& hello);
std::array<std::byte, kServerHelloBytes> Encode(const ServerHello& hello);
// nullopt: not ours, another version of the handshake, or numbers out of range (rank, callee < nranks <= kMaxRanks).
std::optional<ClientHello> DecodeClientHello(std::span<const std::byte, kClientHelloBytes> bytes);
std::optional<ServerHello> DecodeServerHello(std::span<const std::byte, kServerHelloBytes> bytes);

Mac ClientProof(const SecretKey& key, const ClientHello& client, const ServerHello& server);
Mac ServerProof(const SecretKey& key, const ClientHello& client, const ServerHello& server);

struct SessionKeys {
  SecretKey client_to_server;
  SecretKey server_to_client;
};
// `own` is the secret of one side's share, `theirs` the other side's share. nullopt: no honest side has that share.
std::optional<SessionKeys> DeriveSessionKeys(const SecretKey& key, const ClientHello& client, const ServerHello& server,
                                             const SecretKey& own, const Share& theirs);

}  // namespace tutti::auth
