#include "transports/plugin/outbox.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tutti::plugin {

Outbox::Outbox(int rank, const Shared& shared) : rank_(rank), shared_(shared) {
  for (auto& line : lines_) line = std::make_unique<SendingConnection>(shared_.library);
}

bool Outbox::Failed(const Connection& connection) {
  if (why_.empty()) why_ = connection.why();
  return false;
}

void Outbox::Connect(const Greeting& theirs, std::size_t piece) {
  token_ = theirs.token;
  handles_ = theirs.handles;
  piece_ = piece;
  met_ = true;
}

// Asks once for each connection that is not there yet. When both are, their buffers are registered and begin with a
// hello, which proves to the peer that the connection is this rank's.
bool Outbox::Open() {
  for (std::size_t line = 0; line < kLines; ++line) {
    auto& connection = *lines_[line];
    if (!connection.open() && !connection.Connect(shared_.context, shared_.device, handles_[line]))
      return Failed(connection);
  }
  if (!At(Line::messages).open() || !At(Line::data).open()) return false;
  buffers_ = std::make_unique<Buffers>();
  auto& messages = At(Line::messages);
  if (!messages.Register(buffers_->messages.front().data(), sizeof buffers_->messages, messages_memory_))
    return Failed(messages);
  auto& data = At(Line::data);
  if (!data.Register(buffers_->hello.data(), buffers_->hello.size(), hello_memory_)) return Failed(data);
  const Header hello{token_, Kind::hello, 0, 0, 0, 0, 0};
  std::memcpy(buffers_->hello.data(), &hello, sizeof hello);
  Fill(Kind::hello, {}, {});
  open_ = true;
  return true;
}

void Outbox::Send(const progress::SlotMessage& slot, const std::byte* data) {
  if (!why_.empty() || ended_) return;
  ++slots_;
  ++sent_;
  Waiting next{slot.bytes <= kMostPayload ? Kind::short_slot : Kind::long_slot, slot, data, {}};
  if (MayPlace()) {
    Place(next);
  } else {
    waiting_.push_back(std::move(next));
  }
}

void Outbox::SendShort(std::span<const std::byte> message) {
  if (!why_.empty() || ended_) return;
  ++sent_;
  if (MayPlace()) {
    Fill(Kind::short_message, {}, message);
  } else {
    waiting_.push_back({Kind::short_message, {}, nullptr, {message.begin(), message.end()}});
  }
}

void Outbox::End() {
  if (!open_ || std::exchange(ended_, true)) return;
  for (std::size_t i = 0; i < Buffers::kMessages; ++i) waiting_.push_back({Kind::end, {}, nullptr, {}});
}

std::vector<std::vector<std::byte>> Outbox::TakeWaiting() {
  std::vector<std::vector<std::byte>> messages;
  for (auto& each : std::exchange(waiting_, {})) {
    messages.push_back(std::move(each.message));
    --sent_;
  }
  return messages;
}

void Outbox::Fill(Kind kind, const progress::SlotMessage& slot, std::span<const std::byte> payload) {
  const auto at = filled_++ % Buffers::kMessages;
  auto* const buffer = buffers_->messages[at].data();
  const auto bytes = kind == Kind::long_slot ? slot.bytes : static_cast<std::uint32_t>(payload.size());
  const Header header{token_, kind, slot.connection, slot.number, slot.tag, bytes, 0};
  std::memcpy(buffer, &header, sizeof header);
  if (!payload.empty()) std::memcpy(buffer + sizeof header, payload.data(), payload.size());
  what_[at] = {kind, slot, sizeof header + payload.size()};
}

void Outbox::Place(const Waiting& next) {
  if (next.kind == Kind::short_message || next.kind == Kind::end) return Fill(next.kind, {}, next.message);
  if (next.kind == Kind::short_slot) return Fill(next.kind, next.slot, {next.data, next.slot.bytes});
  const auto* data = next.data;
  const auto* const memory = MemoryOf(next.slot, data);
  if (memory == nullptr) return;
  Fill(next.kind, next.slot, {});
  long_slots_.push_back({next.slot, data, memory});
}

// Where the data of a long slot is sent from: its own place in the ring, or the user's memory if that may be registered.
// Otherwise it is copied to its place first. Null: a failure.
const Memory* Outbox::MemoryOf(const progress::SlotMessage& slot, const std::byte*& data) {
  const auto ring = shared_.events.Memory(rank_, slot.connection).outgoing;
  if (ring.slots == nullptr || slot.bytes > ring.shape.capacity) {
    if (why_.empty()) why_ = "there is no ring for a slot that was to be sent";
    return nullptr;
  }
  auto* const place = ring.Data(slot.number - 1);
  if (data != place) {
    if (const auto* const range = shared_.user_ranges.Holding(data, slot.bytes)) return MemoryOf(*range);
    std::memcpy(place, data, slot.bytes);
    data = place;
  }
  auto& line = At(Line::data);
  const auto* const memory = rings_.Find(slot.connection, ring.slots, ring.bytes(), line, rank_, shared_.events);
  if (memory == nullptr) Failed(line);
  return memory;
}

const Memory* Outbox::MemoryOf(const std::shared_ptr<const UserRange>& range) {
  const auto known = std::ranges::find_if(ranges_, [&](const auto& each) { return each.range.lock() == range; });
  if (known != ranges_.end()) return &known->memory;
  Memory memory;
  if (!At(Line::data).Register(range->begin, range->bytes, memory)) {
    Failed(At(Line::data));
    return nullptr;
  }
  return &ranges_.emplace_back(FromRange{range, std::move(memory)}).memory;
}

void Outbox::DropRanges() {
  ranges_.remove_if([](const auto& each) { return each.range.expired(); });
}

bool Outbox::Outlive() {
  // The user's memory is only read, and nobody waits for what is read from there any more.
  ranges_.clear();
  if (quiet()) rings_.Drop();
  return rings_.Owned();
}

bool Outbox::PostMessages() {
  auto& line = At(Line::messages);
  bool moved = false;
  while (posted_ < filled_ && line.room()) {
    const auto at = posted_ % Buffers::kMessages;
    const auto posted = line.Send(buffers_->messages[at].data(), what_[at].bytes, messages_memory_);
    if (posted == Connection::Posted::failed) return Failed(line);
    if (posted == Connection::Posted::not_now) break;
    ++posted_;
    moved = true;
  }
  return moved;
}

bool Outbox::PostData() {
  auto& line = At(Line::data);
  bool moved = false;
  const auto post = [&](const std::byte* data, std::size_t bytes, const Memory& memory) {
    const auto posted = line.room() ? line.Send(data, bytes, memory) : Connection::Posted::not_now;
    if (posted == Connection::Posted::failed) Failed(line);
    moved = moved || posted == Connection::Posted::taken;
    return posted == Connection::Posted::taken;
  };
  if (!data_begun_) data_begun_ = post(buffers_->hello.data(), sizeof(Header), hello_memory_);
  if (!data_begun_) return moved;
  while (next_long_ < long_slots_.size()) {
    auto& slot = long_slots_[next_long_];
    const auto bytes = std::min<std::size_t>(piece_, slot.slot.bytes - slot.posted);
    if (!post(slot.data + slot.posted, bytes, *slot.memory)) break;
    slot.posted += bytes;
    if (slot.posted == slot.slot.bytes) ++next_long_;
  }
  return moved;
}

void Outbox::Told(const progress::SlotMessage& slot) {
  --slots_;
  ++finished_;
  shared_.events.Sent(rank_, slot.connection, slot.number);
}

template <typename Do>
bool Outbox::ForFinished(Line which, Do&& finish) {
  auto& line = At(which);
  bool moved = false;
  std::size_t bytes = 0;
  for (;;) {
    const auto oldest = line.TakeOldest(&bytes);
    if (oldest == Connection::Oldest::failed) return Failed(line);
    if (oldest != Connection::Oldest::done) return moved;
    finish();
    moved = true;
  }
}

void Outbox::FinishMessage() {
  const auto& what = what_[done_++ % Buffers::kMessages];
  if (what.kind == Kind::short_slot) Told(what.slot);
  if (what.kind == Kind::short_message) ++finished_;
}

void Outbox::FinishPiece() {
  if (!std::exchange(data_hello_done_, true)) return;
  auto& slot = long_slots_.front();
  slot.done += std::min<std::size_t>(piece_, slot.slot.bytes - slot.done);
  if (slot.done < slot.slot.bytes) return;
  const auto told = slot.slot;
  long_slots_.pop_front();
  --next_long_;
  Told(told);
}

bool Outbox::FinishDone() {
  const bool moved = ForFinished(Line::messages, [this] { FinishMessage(); });
  return (why_.empty() && ForFinished(Line::data, [this] { FinishPiece(); })) || moved;
}

bool Outbox::Post() {
  while (!waiting_.empty() && HasBuffer() && why_.empty()) {
    Place(waiting_.front());
    waiting_.pop_front();
  }
  const bool moved = why_.empty() && PostMessages();
  return (why_.empty() && PostData()) || moved;
}

void Outbox::Flush() {
  if (open_ && why_.empty() && Post()) FinishDone();
}

bool Outbox::Advance() {
  if (!met_ || !why_.empty()) return false;
  if (!open_ && !Open()) return false;
  const bool moved = FinishDone();
  return (why_.empty() && Post()) || moved;
}

}  // namespace tutti::plugin
