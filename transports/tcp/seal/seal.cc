#include "transports/tcp/seal/seal.h"

#include <algorithm>

#include "base/error.h"

namespace tutti::tcp {

DataProtection ProtectionOf(std::string_view setting) {
  if (setting == "none") return DataProtection::none;
  return setting == "encrypt" ? DataProtection::encrypt : DataProtection::authenticate;
}

TcpSeal::TcpSeal(DataProtection protection, const auth::SecretKey& key) : protection_(protection) {
  if (!proves()) return;
  gcm_ = FastestGcm(key);
  if (gcm_ == nullptr) {
    Throw(tuttiSystemError,
          "OpenSSL's libcrypto cannot protect data between hosts: it has no AES-256-GCM, or no memory. "
          "In a network that no other user can reach, set TUTTI_DATA_PROTECTION=none to do without it");
  }
}

Gcm::Nonce TcpSeal::NonceOf(Part part) const {
  Gcm::Nonce nonce{};
  for (std::size_t i = 0; i < sizeof count_; ++i) nonce[i] = static_cast<unsigned char>(count_ >> (8 * i));
  nonce[sizeof count_] = static_cast<unsigned char>(part);
  return nonce;
}

TcpSeal::Tag TcpSeal::Close(Part part, std::span<const std::byte> header, std::span<const std::byte> body,
                            std::byte* hidden) {
  Tag tag{};
  const Gcm::Text text = hides() ? Gcm::Text{header, {}, body, hidden} : Gcm::Text{header, body, {}};
  if (!gcm_->Close(NonceOf(part), text, tag)) {
    tag = {};
    if (hides()) std::fill_n(hidden, body.size(), std::byte{0});
  }
  return tag;
}

bool TcpSeal::Open(Part part, std::span<const std::byte> header, std::span<std::byte> body,
                   std::span<const std::byte, kTagBytes> tag) {
  return gcm_->Open(NonceOf(part), hides() ? Gcm::Text{header, {}, body, body.data()} : Gcm::Text{header, body, {}},
                    tag);
}

}  // namespace tutti::tcp
