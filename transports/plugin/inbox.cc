#include "transports/plugin/inbox.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tutti::plugin {
namespace {

// The most messages in a row, so that a peer that sends endlessly does not keep this rank from its other work.
constexpr std::size_t kMessagesInARow = 4 * Buffers::kMessages;

}  // namespace

Inbox::Inbox(int rank, std::uint64_t token, const Library& library, progress::NetworkTransportEvents& events)
    : rank_(rank), token_(token), events_(events) {
  for (auto& line : lines_) line = std::make_unique<ReceivingConnection>(library);
}

bool Inbox::Failed(const Connection& connection) {
  if (why_.empty()) why_ = connection.why();
  return false;
}

bool Inbox::Nonsense() {
  malformed_ = true;
  if (why_.empty()) why_ = "it sent a malformed message";
  return false;
}

bool Inbox::Listen(void* context, int device, std::array<Handle, kLines>& handles) {
  for (std::size_t line = 0; line < kLines; ++line) {
    if (!lines_[line]->Listen(context, device, handles[line])) return Failed(*lines_[line]);
  }
  buffers_ = std::make_unique<Buffers>();
  return true;
}

// Asks once for each connection that is not there yet, and registers the buffers of one that has come. True: one has.
bool Inbox::Accept() {
  const auto accept = [&](Line which, std::byte* begin, std::size_t bytes, Memory& memory) {
    auto& line = At(which);
    if (line.open()) return false;
    if (!line.Accept()) return Failed(line);
    if (!line.open()) return false;
    return line.Register(begin, bytes, memory) || Failed(line);
  };
  bool moved = accept(Line::messages, buffers_->messages.front().data(), sizeof buffers_->messages, messages_memory_);
  moved = accept(Line::data, buffers_->hello.data(), buffers_->hello.size(), hello_memory_) || moved;
  return moved;
}

bool Inbox::OfferBuffers() {
  auto& line = At(Line::messages);
  while (offered_ - taken_ < Buffers::kMessages - ends_ && line.room()) {
    const auto at = offered_ % Buffers::kMessages;
    const auto posted = line.Receive(buffers_->messages[at].data(), kMessageBytes, messages_memory_);
    if (posted == Connection::Posted::failed) return Failed(line);
    if (posted == Connection::Posted::not_now) break;
    ++offered_;
  }
  return true;
}

bool Inbox::TakeMessages() {
  auto& line = At(Line::messages);
  bool moved = false;
  for (std::size_t i = 0; i < kMessagesInARow && OfferBuffers(); ++i) {
    std::size_t bytes = 0;
    const auto oldest = line.TakeOldest(&bytes);
    if (oldest == Connection::Oldest::failed) return Failed(line);
    if (oldest != Connection::Oldest::done) break;
    moved = true;
    const auto& buffer = buffers_->messages[taken_ % Buffers::kMessages];
    if (bytes > buffer.size() || !Take(std::span(buffer).first(bytes))) return Nonsense();
    ++taken_;
  }
  return moved;
}

// False: the message is malformed.
bool Inbox::Take(std::span<const std::byte> message) {
  Header header{};
  if (message.size() < sizeof header) return false;
  std::memcpy(&header, message.data(), sizeof header);
  const auto payload = message.subspan(sizeof header);
  const bool first = !Greeted(Line::messages);
  if (header.token != token_ || first != (header.kind == Kind::hello)) return false;
  switch (header.kind) {
    case Kind::hello: Greeted(Line::messages) = payload.empty(); return payload.empty();
    case Kind::short_message:
      ++handed_on_;
      return ends_ == 0 && header.bytes == payload.size() && payload.size() <= progress::kMaxControlBytes &&
             events_.Control(rank_, payload);
    case Kind::short_slot:
    case Kind::long_slot: return ends_ == 0 && TakeSlot(header, payload);
    case Kind::end: return payload.empty() && ++ends_ <= Buffers::kMessages;
  }
  return false;
}

bool Inbox::TakeSlot(const Header& header, std::span<const std::byte> payload) {
  const bool here = header.kind == Kind::short_slot;
  if (payload.size() != (here ? header.bytes : 0) || (header.bytes <= kMostPayload) != here) return false;
  const auto slot = header.slot();
  auto* const landing = events_.Landing(rank_, slot);
  // Data that is to come to a slot would overwrite what else came there.
  const bool taken = std::ranges::any_of(coming_, [&](const auto& each) { return each.landing == landing; });
  if (landing == nullptr || taken) return false;
  if (!here) return AwaitData(slot, landing);
  if (!payload.empty()) std::memcpy(landing, payload.data(), payload.size());
  ++handed_on_;
  events_.Landed(rank_, slot);
  return true;
}

bool Inbox::AwaitData(const progress::SlotMessage& slot, std::byte* landing) {
  if (events_.Memory(rank_, slot.connection).incoming.slots == nullptr) return false;
  coming_.push_back({slot, landing});
  return true;
}

const Memory* Inbox::RingMemory(std::uint32_t connection) {
  const auto ring = events_.Memory(rank_, connection).incoming;
  return rings_.Find(connection, ring.slots, ring.bytes(), At(Line::data), rank_, events_);
}

// Lets data come straight to its places; before any of it, the hello comes to its buffer.
bool Inbox::OfferLandings() {
  auto& line = At(Line::data);
  const auto offer = [&](std::byte* begin, std::size_t bytes, const Memory& memory) {
    const auto posted = line.room() ? line.Receive(begin, bytes, memory) : Connection::Posted::not_now;
    if (posted == Connection::Posted::failed) Failed(line);
    return posted == Connection::Posted::taken;
  };
  if (!data_begun_ && line.open()) data_begun_ = offer(buffers_->hello.data(), buffers_->hello.size(), hello_memory_);
  if (!line.why().empty()) return false;
  while (Greeted(Line::data) && next_ < coming_.size()) {
    auto& coming = coming_[next_];
    const auto* const memory = RingMemory(coming.slot.connection);
    if (memory == nullptr) return Failed(line);
    const auto bytes = std::min<std::size_t>(piece_, coming.slot.bytes - coming.posted);
    if (!offer(coming.landing + coming.posted, bytes, *memory)) break;
    coming.posted += bytes;
    if (coming.posted == coming.slot.bytes) ++next_;
  }
  return line.why().empty();
}

bool Inbox::TakeData() {
  auto& line = At(Line::data);
  bool moved = false;
  while (OfferLandings()) {
    std::size_t bytes = 0;
    const auto oldest = line.TakeOldest(&bytes);
    if (oldest == Connection::Oldest::failed) return Failed(line);
    if (oldest != Connection::Oldest::done) break;
    moved = true;
    if (!Greeted(Line::data)) {
      Header hello{};
      std::memcpy(&hello, buffers_->hello.data(), sizeof hello);
      if (bytes != sizeof hello || hello.token != token_ || hello.kind != Kind::hello) return Nonsense();
      Greeted(Line::data) = true;
      continue;
    }
    auto& coming = coming_.front();
    const auto expected = std::min<std::size_t>(piece_, coming.slot.bytes - coming.landed);
    if (bytes != expected) return Nonsense();
    coming.landed += bytes;
    if (coming.landed < coming.slot.bytes) continue;
    const auto slot = coming.slot;
    coming_.pop_front();
    --next_;
    ++handed_on_;
    events_.Landed(rank_, slot);
  }
  return moved;
}

// A connection that has failed, because the peer has closed it for example, does not stop the other: what was sent on
// that one before is still to be taken.
bool Inbox::Advance() {
  if (buffers_ == nullptr || malformed_) return false;
  const bool was_well = why_.empty();
  auto& messages = At(Line::messages);
  auto& data = At(Line::data);
  bool moved = false;
  if (was_well && !(messages.open() && data.open())) moved = Accept();
  if (messages.open() && messages.why().empty()) moved = TakeMessages() || moved;
  if (data.open() && data.why().empty() && !malformed_) moved = TakeData() || moved;
  return moved || (was_well && !why_.empty());
}

}  // namespace tutti::plugin
