#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>

#include "transports/tcp/seal/gcm.h"

namespace tutti::tcp {
namespace {

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

struct Freed {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
using Context = std::unique_ptr<EVP_CIPHER_CTX, Freed>;

class Openssl final : public Gcm {
 public:
  explicit Openssl(Context context) : context_(std::move(context)) {}

  bool Close(const Nonce& nonce, const Text& text, Tag& tag) override {
    return Turn(nonce, text, true) && Finish() &&
           EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, kTagBytes, tag.data()) == 1;
  }

  bool Open(const Nonce& nonce, const Text& text, std::span<const std::byte, kTagBytes> tag) override {
    Tag expected;
    std::ranges::copy(tag, expected.begin());  // OpenSSL takes no const
    return Turn(nonce, text, false) &&
           EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_SET_TAG, kTagBytes, expected.data()) == 1 &&
           Finish();  // compares
  }

 private:
  bool Turn(const Nonce& nonce, const Text& text, bool closing) {
    return EVP_CipherInit_ex2(context_.get(), nullptr, nullptr, nonce.data(), closing ? 1 : 0, nullptr) == 1 &&
           Update(nullptr, text.header) && Update(nullptr, text.plain) && Update(text.to, text.turned);
  }

  // `to`: null for bytes that are only proven.
  bool Update(std::byte* to, std::span<const std::byte> from) {
    int done = 0;
    return from.empty() || EVP_CipherUpdate(context_.get(), reinterpret_cast<unsigned char*>(to), &done, Raw(from),
                                            static_cast<int>(from.size())) == 1;
  }

  bool Finish() {
    std::array<unsigned char, kTagBytes> nothing;
    int done = 0;
    return EVP_CipherFinal_ex(context_.get(), nothing.data(), &done) == 1;
  }

  Context context_;  // has the key
};

}  // namespace

std::unique_ptr<Gcm> FastestGcm(const auth::SecretKey& key) {
  auto made = IpsecMbGcm(key);
  return made != nullptr ? std::move(made) : OpensslGcm(key);
}

std::unique_ptr<Gcm> OpensslGcm(const auth::SecretKey& key) {
  Context context(EVP_CIPHER_CTX_new());
  if (kCipher == nullptr || context == nullptr ||
      EVP_CipherInit_ex2(context.get(), kCipher, key.data(), nullptr, 1, nullptr) != 1) {
    return nullptr;
  }
  return std::make_unique<Openssl>(std::move(context));
}

}  // namespace tutti::tcp
