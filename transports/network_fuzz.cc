// libFuzzer target. What ranks of other hosts send: a stream of slots and messages, cut anywhere, and the messages in it.
#include <sys/socket.h>

#include <cstdint>
#include <cstring>

#include "transports/network_messages.h"
#include "transports/tcp_stream.h"

namespace tutti {
namespace {

void Require(bool promise) {
  if (!promise) __builtin_trap();
}

void RequireSameAgain(std::span<const std::byte> input) {
  const auto message = DecodeNetworkMessage(input);
  if (!message) return;
  if (const auto* const credits = std::get_if<Credits>(&*message)) Require(credits->count <= Credits::kMost);
  std::vector<std::byte> again;
  Encode(*message, again);
  Require(again.size() == input.size() && std::memcmp(again.data(), input.data(), input.size()) == 0);
}

// Takes slots of a few connections, of at most as many bytes as it has room for, as the engine does.
class Receiver final : public CarrierEvents {
 public:
  void Connected(int) override {}
  std::byte* Landing(int, const SlotMessage& message) override {
    if (message.connection > 3 || message.bytes > slot_.size()) return nullptr;
    promised_ = message;
    return slot_.data();
  }
  void Landed(int, const SlotMessage& message) override {
    Require(message.connection == promised_.connection && message.number == promised_.number &&
            message.bytes == promised_.bytes);
  }
  void Sent(int, std::uint32_t, std::uint32_t) override { Require(false); }
  bool Control(int, std::span<const std::byte> message) override {
    Require(message.size() <= kMaxControlBytes);
    RequireSameAgain(message);
    return DecodeNetworkMessage(message).has_value();
  }
  void Broken(int, const std::string&) override {}

 private:
  std::array<std::byte, 4096> slot_;
  SlotMessage promised_{};
};

// In pieces, for the reader may wake anywhere.
void Receive(std::span<const std::byte> input) {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0) return;
  TcpStream stream{Socket(fds[0]), 1};
  Socket sender{fds[1]};
  Receiver receiver;
  const std::size_t piece = input.empty() ? 1 : 1 + std::to_integer<std::size_t>(input[0]);
  bool alive = true;
  while (alive && !input.empty()) {
    const auto sent = SendSome(sender, input.first(std::min(piece, input.size())));
    input = input.subspan(sent.bytes);
    for (bool moved = true; alive && moved;) {
      moved = false;
      alive = stream.Receive(receiver, moved);
    }
  }
  sender.Close();
  bool moved = false;
  while (alive) alive = stream.Receive(receiver, moved);
  Require(!stream.why().empty());
}

}  // namespace
}  // namespace tutti

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  tutti::RequireSameAgain(input);
  tutti::Receive(input);
  return 0;
}
