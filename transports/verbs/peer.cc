#include "transports/verbs/peer.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>

#include "base/error.h"

namespace tutti::verbs {
namespace {

// Requests reserved for short messages: a long one has eight parts.
constexpr std::size_t kForMessages = 16;

// The meaning of a completion's status here, for a person.
std::string_view Hint(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR: return " (the peer or the way to it is gone)";
    case IBV_WC_REM_ACCESS_ERR: return " (the peer's memory is no longer registered)";
    case IBV_WC_LOC_PROT_ERR: return " (memory was unmapped or deregistered while it was being sent)";
    case IBV_WC_WR_FLUSH_ERR: return " (the queue pair had failed before)";
    default: return "";
  }
}

}  // namespace

bool VerbsPeer::Posted(const VerbsQueue& queue, int error) {
  return error == 0 || Fail(fmt::format("{}: posting a request failed: {}", queue.name(), ErrnoText(error)));
}

bool VerbsPeer::Register(RingRegions& regions, const progress::RingMemory& memory, bool remote) {
  if (regions.slots) return true;
  try {
    const auto& apart = memory.apart;
    if (apart.device != nullptr) {
      const auto file = apart.device->FileOf(apart.begin, apart.bytes);
      if (!file) Throw(tuttiInternalError, "a ring was to be registered before there was memory for it");
      regions.data = RailRegions(device_.rails, {apart.begin, apart.bytes, file->descriptor, file->offset}, remote);
    } else if (apart.begin != nullptr) {
      regions.data = RailRegions(device_.rails, {apart.begin, apart.bytes}, remote);
    }
    regions.slots = RailRegions(device_.rails, {memory.slots, memory.bytes()}, remote);
    return true;
  } catch (const Error& error) {
    return Fail(error.what());
  }
}

void VerbsPeer::Greet() {
  VerbsGreeting greeting;
  try {
    for (std::size_t rail = 0; rail < rails_; ++rail) {
      queues_.push_back(std::make_unique<VerbsQueue>(*device_.rails[rail], rank(), rail == 0));
      greeting.queues.push_back(queues_.back()->place());
    }
  } catch (const Error& error) {
    Fail(error.what());
    return;
  }
  Say(Encode(greeting));
}

bool VerbsPeer::Hear(std::span<const std::byte> own) {
  if (!usable()) return true;
  const auto message = DecodeVerbsMessage(own);
  if (!message) return false;
  if (const auto* greeting = std::get_if<VerbsGreeting>(&*message)) {
    if (met_ || greeting->queues.size() != queues_.size()) return false;
    if (Meet(*greeting)) Say(Encode(VerbsReady{}));
    return true;
  }
  if (!std::holds_alternative<VerbsReady>(*message)) return false;
  HearReady();
  return true;
}

bool VerbsPeer::Meet(const VerbsGreeting& theirs) {
  for (std::size_t rail = 0; rail < rails_; ++rail) {
    const auto why = queues_[rail]->Connect(theirs.queues[rail], device_.settings);
    if (!why.empty()) return Fail(why);
  }
  met_ = true;
  return Pump();
}

bool VerbsPeer::HearReady() {
  heard_ = true;
  return Pump();
}

VerbsPeer::Connection* VerbsPeer::At(std::uint32_t number) {
  if (number >= kMostVerbsConnections) return nullptr;
  if (number >= connections_.size()) connections_.resize(number + 1);
  auto& connection = connections_[number];
  if (connection.memory.outgoing.slots == nullptr) connection.memory = shared().events.Memory(rank(), number);
  return connection.memory.outgoing.slots == nullptr ? nullptr : &connection;
}

int VerbsPeer::Room() const {
  if (!usable() || !up() || !waiting_.empty()) return 0;
  std::size_t room = queues_.front()->room();
  for (const auto& queue : queues_) room = std::min(room, queue->room());
  // Slots that are held take none: the peer may want those of other rings before it uses theirs.
  return static_cast<int>((room - std::min(room, kForMessages)) / requests_);
}

void VerbsPeer::Send(const progress::SlotMessage& message, const std::byte* data) {
  if (!usable()) return;
  auto* const connection = At(message.connection);
  if (connection == nullptr || message.bytes > connection->memory.outgoing.shape.capacity) {
    Fail(fmt::format("connection {} has no slots of {} bytes", message.connection, message.bytes));
  } else if (connection->there) {
    Post(*connection, message, data);
  } else {
    held_.push_back({message, data});
    if (!std::exchange(connection->asked, true)) SendMessage(Encode(RingWanted{message.connection}), true);
  }
}

// The ring is registered, and the data copied to their slot, if that is needed. Null: it failed.
const RailRegions* VerbsPeer::RegionOf(Connection& connection, const progress::SlotMessage& message,
                                       const std::byte*& data) {
  const auto& memory = connection.memory.outgoing;
  auto& regions = connection.outgoing;
  if (!Register(regions, memory, false)) return nullptr;
  std::byte* const in_slot = memory.Data(message.number - 1);
  if (data != in_slot) {
    // The data area of the slot itself is unused then.
    if (const auto* const elsewhere = device_.registered.Holding(data, message.bytes)) return elsewhere;
    std::memcpy(in_slot, data, message.bytes);
    data = in_slot;
  }
  return memory.apart.begin != nullptr ? &regions.data : &regions.slots;
}

bool VerbsPeer::Post(Connection& connection, const progress::SlotMessage& message, const std::byte* data) {
  const auto& memory = connection.memory.outgoing;
  const auto& there = *connection.there;
  std::byte* const begin = memory.Header(message.number - 1) + memory.shape.data_offset - sizeof(SlotPrefix);
  const SlotPrefix prefix{message.tag, message.bytes};
  std::memcpy(begin, &prefix, sizeof prefix);

  const std::size_t rail = message.number % rails_;
  auto& queue = *queues_[rail];
  // Data that a GPU holds, or that go by themselves, are not copied into the request.
  const bool inlined = memory.apart.device == nullptr && !there.data && queue.Inlines(sizeof prefix + message.bytes);
  const RailRegions* const region = inlined ? nullptr : RegionOf(connection, message, data);
  if (!inlined && region == nullptr) return false;
  std::array<ibv_sge, 2> pieces = {
      ibv_sge{reinterpret_cast<std::uint64_t>(begin), sizeof prefix,
              inlined ? 0 : connection.outgoing.slots.local_key(rail)},
      ibv_sge{reinterpret_cast<std::uint64_t>(data), message.bytes, inlined ? 0 : region->local_key(rail)}};
  const auto write = [&](std::span<ibv_sge> what, const PartsPlace& to, bool copied) {
    const std::uint64_t index = ring::SlotIndex(message.number - 1, memory.shape.depth);
    return VerbsQueue::Write{what, to.address + index * to.stride, to.keys[rail], copied};
  };
  const WorkId id{WorkId::Kind::slot, inlined, static_cast<std::uint32_t>(rank()), message.connection, message.number};
  const std::uint32_t immediate = SlotImmediate(message.connection, message.number);
  const std::span both(pieces);
  int error = 0;
  if (there.data && message.bytes > 0) {
    const auto first = write(both.last(1), *there.data, false);
    error = queue.PostSlot(write(both.first(1), there.prefixes, queue.Inlines(sizeof prefix)), &first, id, immediate);
  } else {
    const bool adjoin = data == begin + sizeof prefix && memory.apart.begin == nullptr;
    if (adjoin) pieces[0].length += message.bytes;
    const std::size_t count = adjoin || message.bytes == 0 ? 1 : 2;
    error = queue.PostSlot(write(both.first(count), there.prefixes, inlined), nullptr, id, immediate);
  }
  if (!Posted(queue, error)) return false;
  if (inlined) shared().events.Sent(rank(), message.connection, message.number);
  return true;
}

bool VerbsPeer::SendMessage(std::span<const std::byte> message, bool own) {
  if (!usable()) return false;
  std::size_t posted = 0;
  if (up() && waiting_.empty() && !PostParts(message, own, posted)) return false;
  if (posted < message.size()) waiting_.push_back({{message.begin(), message.end()}, own, posted});
  return true;
}

// Posts as many as there is room for; `posted` bytes of the message are done.
bool VerbsPeer::PostParts(std::span<const std::byte> message, bool own, std::size_t& posted) {
  auto& queue = *queues_.front();
  while (posted < message.size() && queue.room() > 0 && queue.CanPostPart()) {
    const auto part = message.subspan(posted, std::min(VerbsQueue::kPartBytes, message.size() - posted));
    const bool last = posted + part.size() == message.size();
    if (!Posted(queue, queue.PostPart(part, {last, own}))) return false;
    posted += part.size();
  }
  return true;
}

// Sends what no longer has to wait.
bool VerbsPeer::Pump() {
  if (!up() || !usable()) return true;
  while (!waiting_.empty()) {
    auto& first = waiting_.front();
    if (!PostParts(first.message, first.own, first.posted)) return false;
    if (first.posted < first.message.size()) return true;
    waiting_.pop_front();
  }
  if (held_.empty()) return true;
  bool fine = true;
  std::erase_if(held_, [&](const Held& held) {
    auto& connection = connections_[held.message.connection];
    if (!fine || !connection.there || queues_[held.message.number % rails_]->room() < kForMessages + requests_) {
      return false;
    }
    fine = Post(connection, held.message, held.data);
    return true;
  });
  return fine;
}

std::vector<std::vector<std::byte>> VerbsPeer::TakeWaiting() {
  std::vector<std::vector<std::byte>> messages;
  for (auto& waiting : waiting_) {
    if (!waiting.own) messages.push_back(std::move(waiting.message));
  }
  waiting_.clear();
  return messages;
}

bool VerbsPeer::settled() const {
  return waiting_.empty() && held_.empty() &&
         std::ranges::all_of(queues_, [](const auto& queue) { return queue->busy() == 0; });
}

// After a failure, what the peer sent before still arrives.
void VerbsPeer::Complete(std::size_t rail, const ibv_wc& completion) {
  if (stopped() || malformed_) return;
  auto& queue = *queues_[rail];
  const auto id = WorkId::From(completion.wr_id);
  if (completion.status != IBV_WC_SUCCESS) {
    Fail(fmt::format("{}: {}{}", queue.name(), LoadedVerbs()->wc_status_str(completion.status),
                     Hint(completion.status)));
  } else if (id.kind == WorkId::Kind::receive) {
    if (Received(queue, id.number, completion) && usable()) Posted(queue, queue.Receive(id.number));
  } else {
    queue.Done(id);
    if (id.kind == WorkId::Kind::slot && !id.told) shared().events.Sent(rank(), id.connection, id.number);
    if (!waiting_.empty() || !held_.empty()) Pump();
  }
}

bool VerbsPeer::Received(const VerbsQueue& queue, std::uint32_t buffer, const ibv_wc& completion) {
  // A peer that sends is ready; its message about that may still be on its way.
  if (!heard_ && !HearReady()) return false;
  const std::uint32_t immediate = ntohl(completion.imm_data);
  if (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM) return Arrived(immediate);
  return TakePart(queue.Part(buffer, completion.byte_len), PartImmediate::From(immediate));
}

bool VerbsPeer::Arrived(std::uint32_t immediate) {
  auto* const connection = At(ImmediateConnection(immediate));
  if (connection == nullptr || !connection->incoming.slots) return Nonsense();
  const auto& incoming = connection->memory.incoming;
  const std::uint32_t number = ImmediateNumber(immediate, connection->newest);
  // Numbers wrap: the newer of two is the one a little ahead of the other.
  if (static_cast<std::int32_t>(number - connection->newest) > 0) connection->newest = number;
  SlotPrefix prefix;
  std::memcpy(&prefix, incoming.Header(number - 1) + incoming.shape.data_offset - sizeof prefix, sizeof prefix);
  const progress::SlotMessage message{ImmediateConnection(immediate), number, prefix.tag, prefix.bytes};
  if (shared().events.Landing(rank(), message) != incoming.Data(number - 1)) return Nonsense();
  shared().events.Landed(rank(), message);
  return true;
}

bool VerbsPeer::TakePart(std::span<const std::byte> part, PartImmediate immediate) {
  if (immediate.last && assembling_.empty()) return TakeMessage(part, immediate.own);
  if (assembling_.size() + part.size() > progress::kMaxControlBytes) return Nonsense();
  assembling_.insert(assembling_.end(), part.begin(), part.end());
  if (!immediate.last) return true;
  const bool fine = TakeMessage(assembling_, immediate.own);
  assembling_.clear();
  return fine;
}

bool VerbsPeer::TakeMessage(std::span<const std::byte> message, bool own) {
  if (!own) return shared().events.Control(rank(), message) || Nonsense();
  const auto decoded = DecodeVerbsMessage(message);
  if (!decoded) return Nonsense();
  if (const auto* wanted = std::get_if<RingWanted>(&*decoded)) return Take(*wanted);
  if (const auto* place = std::get_if<RingPlace>(&*decoded)) return Take(*place);
  return Nonsense();
}

bool VerbsPeer::Take(const RingWanted& wanted) {
  auto* const connection = At(wanted.connection);
  if (connection == nullptr) return Nonsense();
  const auto& apart = connection->memory.incoming.apart;
  connection->wanted = apart.device != nullptr && !apart.device->FileOf(apart.begin, apart.bytes);
  return connection->wanted || Answer(*connection, wanted.connection);
}

void VerbsPeer::Use(std::uint32_t number) {
  if (number < connections_.size() && std::exchange(connections_[number].wanted, false)) {
    Answer(connections_[number], number);
  }
}

bool VerbsPeer::Answer(Connection& connection, std::uint32_t number) {
  const auto& memory = connection.memory.incoming;
  auto& regions = connection.incoming;
  if (!Register(regions, memory, true)) return false;
  const auto place = [this](const std::byte* first, std::uint32_t stride, const RailRegions& parts) {
    auto keys = parts.remote_keys();
    keys.resize(rails_);
    return PartsPlace{reinterpret_cast<std::uint64_t>(first), stride, std::move(keys)};
  };
  RingPlace answer{
      number,
      place(memory.Header(0) + memory.shape.data_offset - sizeof(SlotPrefix), memory.shape.stride, regions.slots),
      {}};
  if (regions.data) answer.data = place(memory.Data(0), memory.apart.stride, regions.data);
  return SendMessage(Encode(answer), true);
}

// Wrong places are the peer's loss: its device refuses them.
bool VerbsPeer::Take(const RingPlace& place) {
  auto* const connection = At(place.connection);
  if (connection == nullptr || connection->there) return Nonsense();
  const auto fits = [&](const PartsPlace& parts, std::size_t bytes) {
    return parts.stride >= bytes && parts.keys.size() == rails_;
  };
  const std::size_t capacity = connection->memory.outgoing.shape.capacity;
  if (!fits(place.prefixes, sizeof(SlotPrefix) + (place.data ? 0 : capacity)) ||
      (place.data && !fits(*place.data, capacity))) {
    return Nonsense();
  }
  if (place.data) requests_ = 2;
  connection->there = place;
  return Pump();
}

bool VerbsPeer::Uses(const ibv_qp* pair) const {
  return std::ranges::any_of(queues_, [&](const auto& queue) { return queue->pair() == pair; });
}

void VerbsPeer::Stop() {
  side::Peer::Stop();
  for (const auto& queue : queues_) queue->Stop();
  waiting_.clear();
  held_.clear();
}

}  // namespace tutti::verbs
