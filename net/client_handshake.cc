#include "net/client_handshake.h"

namespace tutti {

ClientHandshake::ClientHandshake(Socket socket, Purpose purpose, int rank, int nranks)
    : socket_(std::move(socket)),
      hello_{purpose, static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(nranks), RandomNonce()} {}

// Fresh connections take these few bytes at once.
bool ClientHandshake::Send(std::span<const std::byte> bytes) const {
  return SendSome(socket_, bytes).bytes == bytes.size();
}

ClientHandshake::State ClientHandshake::Advance(const SecretKey& key) {
  if (!said_hello_ && !Send(Encode(hello_))) return State::dropped;
  said_hello_ = true;
  while (received_ < bytes_.size()) {
    const auto result = ReceiveSome(socket_, std::span(bytes_).subspan(received_));
    if (result.status == IoStatus::closed) return State::dropped;
    received_ += result.bytes;
    // What does not begin like ours will not end like ours; a stranger may keep us waiting for the rest.
    if (received_ >= kMagicBytes && !DecodeServerHello(bytes_)) return State::foreign;
    if (result.status == IoStatus::would_block) return State::waiting;
  }
  server_ = *DecodeServerHello(bytes_);
  if (!SameMac(server_.proof, ServerProof(key, hello_, server_.nonce))) return State::stranger;
  return Send(ClientProof(key, hello_, server_.nonce)) ? State::proven : State::dropped;
}

}  // namespace tutti
