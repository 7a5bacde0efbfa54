#include "transports/tcp/seal.h"

#include <openssl/crypto.h>

#include <algorithm>

namespace tutti::tcp {
namespace {

// NIST SP 800-38D's recommended length, and OpenSSL's default.
constexpr std::size_t kNonceBytes = 12;

// Belongs to a context that is never freed: threads may be sending while the process exits. Null: libcrypto has no such
// mode.
//
// Made while the library is loaded, because OpenSSL prepares itself under locks that a child forked in between would
// find taken. OpenSSL's clean-up at exit() is omitted unless the program has asked for it before: it would free what
// such threads use.
const EVP_CIPHER* const kCipher = [] {
  OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
  OSSL_LIB_CTX* const context = OSSL_LIB_CTX_new();
  return context == nullptr ? nullptr : EVP_CIPHER_fetch(context, "AES-256-GCM", nullptr);
}();

const unsigned char* Raw(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace

DataProtection ProtectionOf(std::string_view setting) {
  if (setting == "none") return DataProtection::none;
  return setting == "encrypt" ? DataProtection::encrypt : DataProtection::authenticate;
}

TcpSeal::TcpSeal(DataProtection protection, const auth::SecretKey& key) : protection_(protection) {
  if (!proves()) return;
  context_.reset(EVP_CIPHER_CTX_new());
  const bool ready = kCipher != nullptr && context_ != nullptr &&
                     EVP_CipherInit_ex2(context_.get(), kCipher, key.data(), nullptr, 1, nullptr) == 1;
  if (!ready) {
    Throw(tuttiSystemError,
          "OpenSSL's libcrypto cannot protect data between hosts: it has no AES-256-GCM, or no memory. "
          "In a network that no other user can reach, set TUTTI_DATA_PROTECTION=none to do without it");
  }
}

bool TcpSeal::Begin(Part part, bool closing) {
  std::array<unsigned char, kNonceBytes> nonce{};
  for (std::size_t i = 0; i < sizeof count_; ++i) nonce[i] = static_cast<unsigned char>(count_ >> (8 * i));
  nonce[sizeof count_] = static_cast<unsigned char>(part);
  return EVP_CipherInit_ex2(context_.get(), nullptr, nullptr, nonce.data(), closing ? 1 : 0, nullptr) == 1;
}

bool TcpSeal::Prove(std::span<const std::byte> bytes) {
  int done = 0;
  return bytes.empty() ||
         EVP_CipherUpdate(context_.get(), nullptr, &done, Raw(bytes), static_cast<int>(bytes.size())) == 1;
}

bool TcpSeal::Turn(std::span<const std::byte> from, std::byte* to) {
  int done = 0;
  return from.empty() || EVP_CipherUpdate(context_.get(), reinterpret_cast<unsigned char*>(to), &done, Raw(from),
                                          static_cast<int>(from.size())) == 1;
}

TcpSeal::Tag TcpSeal::Close(Part part, std::span<const std::byte> header, std::span<const std::byte> body,
                            std::byte* hidden) {
  Tag tag{};
  std::array<unsigned char, kTagBytes> nothing;
  int done = 0;
  const bool closed = Begin(part, true) && Prove(header) && (hides() ? Turn(body, hidden) : Prove(body)) &&
                      EVP_CipherFinal_ex(context_.get(), nothing.data(), &done) == 1 &&
                      EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, kTagBytes, tag.data()) == 1;
  if (!closed) {
    tag = {};
    if (hides()) std::fill_n(hidden, body.size(), std::byte{0});
  }
  return tag;
}

bool TcpSeal::Open(Part part, std::span<const std::byte> header, std::span<std::byte> body,
                   std::span<const std::byte, kTagBytes> tag) {
  std::array<std::byte, kTagBytes> expected;
  std::ranges::copy(tag, expected.begin());  // OpenSSL takes no const
  std::array<unsigned char, kTagBytes> nothing;
  int done = 0;
  // The last step compares, in constant time.
  return Begin(part, false) && Prove(header) && (hides() ? Turn(body, body.data()) : Prove(body)) &&
         EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_SET_TAG, kTagBytes, expected.data()) == 1 &&
         EVP_CipherFinal_ex(context_.get(), nothing.data(), &done) == 1;
}

}  // namespace tutti::tcp
