#include "transports/tcp_seal.h"

namespace tutti {
namespace {

const unsigned char* Raw(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace

DataProtection ProtectionOf(std::string_view setting) {
  if (setting == "none") return DataProtection::none;
  return setting == "encrypt" ? DataProtection::encrypt : DataProtection::authenticate;
}

void TcpSeal::Next() {
  for (std::size_t i = 0; i < sizeof count_; ++i) nonce_[i] = static_cast<unsigned char>(count_ >> (8 * i));
  ++count_;
  crypto_stream_chacha20_ietf(once_.data(), once_.size(), nonce_.data(), key_.data());
}

TcpSeal::Tag TcpSeal::TagAhead(std::span<const std::byte> header, std::span<const std::byte> body) const {
  crypto_onetimeauth_state state;
  crypto_onetimeauth_init(&state, once_.data());
  crypto_onetimeauth_update(&state, Raw(header), header.size());
  crypto_onetimeauth_update(&state, Raw(body), body.size());
  Tag tag;
  crypto_onetimeauth_final(&state, reinterpret_cast<unsigned char*>(tag.data()));
  return tag;
}

TcpSeal::Tag TcpSeal::TagBehind(std::span<const std::byte> body) const {
  Tag tag;
  crypto_onetimeauth(reinterpret_cast<unsigned char*>(tag.data()), Raw(body), body.size(),
                     once_.data() + crypto_onetimeauth_KEYBYTES);
  return tag;
}

void TcpSeal::Turn(std::span<const std::byte> from, std::byte* to) const {
  crypto_stream_chacha20_ietf_xor_ic(reinterpret_cast<unsigned char*>(to), Raw(from), from.size(), nonce_.data(), 1,
                                     key_.data());
}

}  // namespace tutti
