#include "net/auth/channel.h"

#include <array>

namespace tutti::auth {

void SecureChannel::Queue(std::span<const std::byte> payload) {
  sealer_.Seal(payload, out_);
  Flush();
}

void SecureChannel::Flush() {
  while (sending()) {
    const auto result = net::SendSome(socket_, std::span<const std::byte>(out_).subspan(sent_));
    sent_ += result.bytes;
    if (result.status == net::IoStatus::would_block) return;
    if (result.status != net::IoStatus::closed) continue;
    // Data from the peer may still be there to read, so this alone does not close the channel. But a frame is lost now,
    // perhaps for want of memory here, so the peer must not wait for it.
    cannot_send_ = true;
    socket_.ShutdownSending();
  }
  out_.clear();
  sent_ = 0;
}

std::optional<std::vector<std::byte>> SecureChannel::Receive() {
  constexpr std::size_t kPiece = 64 * 1024;
  for (;;) {
    if (auto frame = opener_.Next()) return frame;
    if (opener_.broken()) closed_ = true;
    if (closed_) return std::nullopt;
    std::array<std::byte, kPiece> piece;
    const auto result = net::ReceiveSome(socket_, piece);
    if (result.status == net::IoStatus::would_block) return std::nullopt;
    if (result.status == net::IoStatus::closed) closed_ = true;
    opener_.Feed(std::span(piece).first(result.bytes));
  }
}

}  // namespace tutti::auth
