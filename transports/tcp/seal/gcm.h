// AES-256 in Galois/counter mode (NIST SP 800-38D) with one key, by whichever library is there:
//   - OpenSSL's libcrypto, always. No configuration file changes the separate context in which it is used, and the context
//     exists until the process is gone, whatever other code uses or cleans up OpenSSL.
//   - Intel's libIPSec_MB, instead, where the system has it: with AVX-512 it takes a sixth to two fifths of the time
//     (docs/notebook/protection/protection.md). It is loaded, not linked.
// The cipher is the same, so ranks with one and ranks with the other understand each other.
//
// Thread-safety: one thread at a time for each object.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "net/auth/secret_key.h"

namespace tutti::tcp {

class Gcm {
 public:
  // SP 800-38D's recommended lengths.
  static constexpr std::size_t kNonceBytes = 12;
  static constexpr std::size_t kTagBytes = 16;
  using Nonce = std::array<unsigned char, kNonceBytes>;
  using Tag = std::array<std::byte, kTagBytes>;

  // What one tag proves, in this order. REQUIRES: `plain` or `turned` is empty.
  struct Text {
    std::span<const std::byte> header;
    std::span<const std::byte> plain;   // proven, not hidden
    std::span<const std::byte> turned;  // encrypted or decrypted into `to`, which may be the same memory
    std::byte* to = nullptr;
  };

  virtual ~Gcm() = default;

  // Encrypts, and returns the tag. REQUIRES: no other text was closed with this key and nonce. Returns false if the
  // library failed.
  virtual bool Close(const Nonce& nonce, const Text& text, Tag& tag) = 0;
  // Decrypts, and returns whether `tag` belongs to the text; compared in constant time.
  virtual bool Open(const Nonce& nonce, const Text& text, std::span<const std::byte, kTagBytes> tag) = 0;

 protected:
  // As the libraries take bytes.
  static const unsigned char* Raw(std::span<const std::byte> bytes) {
    return reinterpret_cast<const unsigned char*>(bytes.data());
  }
};

// By one library. Null if it is not there, or has no such mode.
std::unique_ptr<Gcm> OpensslGcm(const auth::SecretKey& key);
std::unique_ptr<Gcm> IpsecMbGcm(const auth::SecretKey& key);

// By the faster one. Null if neither has the mode.
std::unique_ptr<Gcm> FastestGcm(const auth::SecretKey& key);
// Its name, for a person.
std::string NameOfFastestGcm();

}  // namespace tutti::tcp
