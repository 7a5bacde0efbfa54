#include "net/auth/client_handshake.h"

#include <algorithm>

#include "net/peer_user.h"

namespace tutti::auth {

ClientHandshake::ClientHandshake(net::Socket socket, const Errand& errand)
    : socket_(std::move(socket)),
      hello_{errand.purpose,
             static_cast<std::uint32_t>(errand.rank),
             static_cast<std::uint32_t>(errand.callee),
             static_cast<std::uint32_t>(errand.nranks),
             {},
             pair_.share} {}

// Fresh connections take these few bytes at once.
bool ClientHandshake::Send(std::span<const std::byte> bytes) const {
  return net::SendSome(socket_, bytes).bytes == bytes.size();
}

ClientHandshake::State ClientHandshake::Read(std::size_t needed) {
  while (received_ < needed) {
    const auto result = net::ReceiveSome(socket_, std::span(bytes_).first(needed).subspan(received_));
    if (result.status == net::IoStatus::closed) return State::dropped;
    if (step_ == Step::await_hello && received_ == 0 && result.bytes > 0) {
      // The server has answered, so its end has an owner. Nothing of the answer has been looked at yet.
      // If the server has closed meanwhile, its owner is unknown. Its hello may then still say why it is not the rank
      // that was called, but nothing more is sent to it.
      auto user = net::UserOfTcpPeer(socket_);
      gone_ = user.verdict == net::PeerUser::Verdict::gone;
      if (!gone_ && !user.taken()) {
        refusal_ = std::move(user.why);
        return user.verdict == net::PeerUser::Verdict::unknown ? State::unjudged : State::refused;
      }
    }
    received_ += result.bytes;
    // A wrong beginning shows a foreign protocol at once; a stranger may keep us waiting for the rest.
    const bool begun = step_ == Step::await_hello && received_ >= kMagicBytes;
    if (begun && !DecodeServerHello(std::span(bytes_).first<kServerHelloBytes>())) return State::foreign;
    if (result.status == net::IoStatus::would_block) return State::waiting;
  }
  received_ = 0;
  return State::proven;
}

ClientHandshake::State ClientHandshake::Advance(const SecretKey& key) {
  if (step_ == Step::hello) {
    hello_.key_name = NameOf(key, hello_.purpose);
    if (!Send(Encode(hello_))) return State::dropped;
    step_ = Step::await_hello;
  }
  if (step_ == Step::await_hello) {
    if (const auto state = Read(kServerHelloBytes); state != State::proven) return state;
    server_ = *DecodeServerHello(std::span(bytes_).first<kServerHelloBytes>());
    if (server_.rank != hello_.callee) return State::misled;
    if (gone_) return State::dropped;
    if (!Send(ClientProof(key, hello_, server_))) return State::dropped;
    step_ = Step::await_proof;
  }
  if (const auto state = Read(kProofBytes); state != State::proven) return state;
  Mac proof;
  std::copy_n(bytes_.begin(), proof.size(), proof.begin());
  if (!SameMac(proof, ServerProof(key, hello_, server_))) return State::stranger;
  keys_ = DeriveSessionKeys(key, hello_, server_, pair_.secret, server_.share);
  return keys_ ? State::proven : State::stranger;
}

}  // namespace tutti::auth
