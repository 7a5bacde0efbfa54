// libFuzzer target. The input is what ranks of other hosts send: a stream of slots and messages, cut anywhere, and the
// messages in it; or what strangers send in place of a protected stream, or change in one.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "transports/progress/network_messages.h"
#include "transports/tcp/stream.h"

namespace tutti::progress {
namespace {

void Require(bool promise) {
  if (!promise) __builtin_trap();
}

constexpr std::size_t kCuts = 8;

void RequireSameAgain(std::span<const std::byte> input) {
  const auto message = DecodeNetworkMessage(input);
  if (!message) return;
  if (const auto* const credits = std::get_if<Credits>(&*message)) Require(credits->count <= Credits::kMost);
  std::vector<std::byte> again;
  Encode(*message, again);
  Require(again.size() == input.size() && std::memcmp(again.data(), input.data(), input.size()) == 0);
}

// Takes slots of a few connections, of at most as many bytes as it has room for, as the engine does.
class Receiver final : public NetworkTransportEvents {
 public:
  void Connected(int) override {}
  std::byte* Landing(int, const SlotMessage& message) override {
    if (message.connection > 3 || message.bytes > slot_.size()) return nullptr;
    promised_ = message;
    return slot_.data();
  }
  void Landed(int, const SlotMessage& message) override {
    ++heard;
    Require(message.connection == promised_.connection && message.number == promised_.number &&
            message.bytes == promised_.bytes);
  }
  void Sent(int, std::uint32_t, std::uint32_t) override { Require(false); }
  bool Control(int, std::span<const std::byte> message) override {
    ++heard;
    Require(message.size() <= kMaxControlBytes);
    RequireSameAgain(message);
    return DecodeNetworkMessage(message).has_value();
  }
  void Broken(int, const std::string&) override {}

  std::size_t heard = 0;  // items

 private:
  std::array<std::byte, 4096> slot_;
  SlotMessage promised_{};
};

// Sends `input` in pieces cut at `cuts`, because the reader may wake anywhere. Returns how many items were accepted.
std::size_t Receive(std::span<const std::byte> cuts, std::span<const std::byte> input,
                    tcp::TcpStream::Seals seals = {}) {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0) return 0;
  tcp::TcpStream stream{net::Socket(fds[0]), 1, std::move(seals)};
  net::Socket sender{fds[1]};
  Receiver receiver;
  bool alive = true;
  for (std::size_t i = 0; alive && !input.empty(); ++i) {
    const std::size_t cut = i < kCuts && i < cuts.size() ? 1 + std::to_integer<std::size_t>(cuts[i]) : input.size();
    const auto sent = net::SendSome(sender, input.first(std::min(cut, input.size())));
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
  return receiver.heard;
}

// A few slots and a message as they cross the wire.
std::vector<std::byte> Sealed(tcp::TcpSeal seal) {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0) return {};
  tcp::TcpStream stream{net::Socket(fds[0]), 1, {std::move(seal), {}}};
  const net::Socket end{fds[1]};
  const std::array<std::byte, 4096> data{};
  for (const std::uint32_t number : {1U, 2U}) stream.QueueSlot({1, number, 7, number * 1000}, data.data());
  stream.QueueControl(std::as_bytes(std::span("no message")));
  std::vector<std::byte> wire(16384);
  struct Sender final : NetworkTransportEvents {
    void Connected(int) override {}
    std::byte* Landing(int, const SlotMessage&) override { return nullptr; }
    void Landed(int, const SlotMessage&) override {}
    void Sent(int, std::uint32_t, std::uint32_t) override {}
    bool Control(int, std::span<const std::byte>) override { return false; }
    void Broken(int, const std::string&) override {}
  } sender;
  Require(stream.Flush(sender));
  wire.resize(net::ReceiveSome(end, wire).bytes);
  return wire;
}

// Changes bytes of a protected stream as the input says: no item from the first changed byte on is accepted.
void Change(std::span<const std::byte> input, tcp::DataProtection protection) {
  // One entry per kind of protection.
  static const auth::SecretKey key = auth::DeriveKey(auth::SecretKey(), "fuzz", {});
  static const std::array<std::vector<std::byte>, 2> sealed = {
      Sealed(tcp::TcpSeal(tcp::DataProtection::authenticate, key)),
      Sealed(tcp::TcpSeal(tcp::DataProtection::encrypt, key))};
  const auto& whole = sealed[protection == tcp::DataProtection::encrypt];
  auto wire = whole;
  for (std::size_t i = 0; i + 2 < input.size(); i += 3) {
    const std::size_t at = std::to_integer<std::size_t>(input[i]) << 8 | std::to_integer<std::size_t>(input[i + 1]);
    wire[at % wire.size()] ^= input[i + 2];
  }
  const auto changed = static_cast<std::size_t>(std::ranges::mismatch(whole, wire).in1 - whole.begin());
  constexpr std::size_t kAround = 16 + tcp::TcpSeal::kTagBytes;
  std::size_t begin = 0, most = 0;
  for (const std::size_t size : {std::size_t{1000}, std::size_t{2000}, sizeof "no message"}) {
    begin += kAround + size;
    if (begin <= changed) ++most;
  }
  const std::size_t heard = Receive(input, wire, {{}, tcp::TcpSeal(protection, key)});
  // An unchanged message is accepted, although it means nothing to the receiver.
  Require(heard == most);
}

}  // namespace
}  // namespace tutti::progress

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  tutti::progress::RequireSameAgain(input);
  const auto wire = input.subspan(std::min(input.size(), tutti::progress::kCuts));
  tutti::progress::Receive(input, wire);
  static const auto key = tutti::auth::SecretKey::Random();
  if (tutti::progress::Receive(input, wire, {{}, tutti::tcp::TcpSeal(tutti::tcp::DataProtection::authenticate, key)}) !=
      0)
    __builtin_trap();
  for (const auto protection : {tutti::tcp::DataProtection::authenticate, tutti::tcp::DataProtection::encrypt}) {
    tutti::progress::Change(input, protection);
  }
  return 0;
}
