// A 32-byte key that is wiped from memory when its holder goes away, and values derived from it.
//
// Thread-safety: value type.
#pragma once

#include <sodium.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "base/error.h"

namespace tutti::auth {

// Done while the library is loaded: libsodium prepares itself under a lock, which would stay locked forever in a child
// that is forked during that time.
inline const bool kSodiumIsReady = sodium_init() >= 0;

// All functions below call this.
inline void EnsureSodium() {
  if (!kSodiumIsReady) Throw(tuttiSystemError, "libsodium cannot be initialised: it has no source of random numbers");
}

class SecretKey {
 public:
  static constexpr std::size_t kBytes = 32;

  SecretKey() = default;  // all zero: no secret
  explicit SecretKey(std::span<const std::byte, kBytes> bytes) {
    std::copy(bytes.begin(), bytes.end(), bytes_.begin());
  }
  SecretKey(const SecretKey&) = default;
  SecretKey& operator=(const SecretKey&) = default;
  ~SecretKey() { sodium_memzero(bytes_.data(), bytes_.size()); }

  static SecretKey Random() {
    EnsureSodium();
    SecretKey key;
    randombytes_buf(key.bytes_.data(), key.bytes_.size());
    return key;
  }

  std::span<const std::byte, kBytes> bytes() const { return bytes_; }
  const unsigned char* data() const { return reinterpret_cast<const unsigned char*>(bytes_.data()); }

  // Constant time.
  friend bool operator==(const SecretKey& a, const SecretKey& b) {
    return sodium_memcmp(a.bytes_.data(), b.bytes_.data(), kBytes) == 0;
  }

 private:
  std::array<std::byte, kBytes> bytes_{};
};

// A number that nobody can guess.
inline std::uint64_t RandomNumber() {
  EnsureSodium();
  std::uint64_t number = 0;
  randombytes_buf(&number, sizeof number);
  return number;
}

// Keyed BLAKE2b of `label`, a zero byte, and the concatenated parts. Labels keep uses apart. Parts must have fixed
// sizes, except one of variable size at the end, so that no two inputs look alike.
template <std::size_t N>
std::array<std::byte, N> KeyedHash(const SecretKey& key, std::string_view label,
                                   std::initializer_list<std::span<const std::byte>> parts) {
  static_assert(N >= crypto_generichash_BYTES_MIN && N <= crypto_generichash_BYTES_MAX);
  EnsureSodium();
  crypto_generichash_state state;
  crypto_generichash_init(&state, key.data(), SecretKey::kBytes, N);
  constexpr unsigned char kEndOfLabel = 0;
  crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(label.data()), label.size());
  crypto_generichash_update(&state, &kEndOfLabel, 1);
  for (const auto part : parts) {
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(part.data()), part.size());
  }
  std::array<std::byte, N> hash;
  crypto_generichash_final(&state, reinterpret_cast<unsigned char*>(hash.data()), N);
  sodium_memzero(&state, sizeof(state));
  return hash;
}

inline SecretKey DeriveKey(const SecretKey& key, std::string_view label,
                           std::initializer_list<std::span<const std::byte>> parts) {
  auto bytes = KeyedHash<SecretKey::kBytes>(key, label, parts);
  const SecretKey derived{std::span<const std::byte, SecretKey::kBytes>(bytes)};
  sodium_memzero(bytes.data(), bytes.size());
  return derived;
}

}  // namespace tutti::auth
