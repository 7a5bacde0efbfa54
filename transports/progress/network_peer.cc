#include "transports/progress/network_peer.h"

#include <algorithm>
#include <cstring>

namespace tutti::progress {
namespace {

constexpr std::uint64_t kAnnouncedAtOnce = 8;

// How many of a ring's credits are worth reporting: half at once, because the sender may be close to waiting; a quarter where
// a slot goes out anyway, so that credits rarely need their own message.
std::uint32_t WorthTelling(Tell which, std::uint32_t credits) {
  switch (which) {
    case Tell::due: return std::max(credits / 2, 1U);
    case Tell::along: return std::max(credits / 4, 1U);
    case Tell::all: break;
  }
  return 1;
}

}  // namespace

NetworkPeer::NetworkPeer(shm::Fabric& fabric, int rank, std::span<const ConnectionRings> polled)
    : fabric_(fabric), rank_(rank) {
  const ring::Layout& layout = fabric.layout(rank);
  first_polled_ = static_cast<std::uint32_t>(layout.channels()) * ring::kProtocols;
  words_ = (first_polled_ + polled.size() + kWordBits - 1) / kWordBits;
  pending_ = std::make_unique<std::atomic<std::uint64_t>[]>(words_);
  owing_.resize(words_);
  for (int channel = 0; channel < layout.channels(); ++channel) {
    for (const ring::Protocol protocol : {ring::Protocol::line, ring::Protocol::inlined, ring::Protocol::bulk}) {
      const auto connection = connections();
      auto& fill = fabric.To(channel, protocol, rank);
      fill.Notify(&pending_[connection / kWordBits], std::uint64_t{1} << connection % kWordBits);
      // The peer would publish its count in its own segment, which here is the shadow segment. This rank publishes
      // there, too.
      const auto head = [&](int reader, int writer) {
        return reinterpret_cast<std::atomic<std::uint32_t>*>(fabric.segment(reader) +
                                                             layout.HeadOffset(channel, protocol, writer, false));
      };
      std::byte* const incoming = fabric.segment(rank) + layout.RingOffset(channel, protocol, fabric.rank());
      Add({{{fill.slots(), fill.shape()}, {incoming, fill.shape()}}, head(rank, fabric.rank()), head(rank, rank)});
    }
  }
  for (const auto& rings : polled) Add(rings);
}

void NetworkPeer::Add(const ConnectionRings& rings) {
  memory_.push_back(rings.memory);
  outgoing_.emplace_back(rings.memory.outgoing, rings.sent);
  incoming_.emplace_back(rings.memory.incoming, rings.emptied);
}

void NetworkPeer::AllowRunAhead() {
  for (std::uint32_t c = ConnectionOf(0, ring::Protocol::bulk); c < first_polled_; c += ring::kProtocols) {
    outgoing_[c].AllowRunAhead();
    incoming_[c].AllowRunAhead();
  }
}

void NetworkPeer::Recall() {
  recalled_ = true;
  for (auto& ring : incoming_) ring.ForgetExpected();
}

bool NetworkPeer::ShowKept() {
  bool shown = false;
  for (const auto connection : keeping_) shown = incoming_[connection].ShowKept() || shown;
  if (shown) std::erase_if(keeping_, [this](std::uint32_t connection) { return !incoming_[connection].keeps(); });
  return shown;
}

std::uint32_t NetworkPeer::Poll(std::uint32_t index) {
  const auto connection = first_polled_ + index;
  if (std::ranges::find(polled_, connection) == polled_.end()) polled_.push_back(connection);
  return connection;
}

bool NetworkPeer::HasFilled() const {
  return std::ranges::any_of(polled_, [this](std::uint32_t connection) { return outgoing_[connection].Filled(); });
}

bool NetworkPeer::PumpSlots(NetworkTransport& transport) {
  bool moved = false;
  for (const auto connection : polled_) {
    if (outgoing_[connection].Filled()) SetPending(connection);
  }
  for (std::size_t w = 0; w < words_; ++w) {
    // Most of the time there is nothing, and a load is cheaper than an exchange.
    if (pending_[w].load(std::memory_order_relaxed) == 0) continue;
    auto bits = pending_[w].exchange(0, std::memory_order_acquire);
    for (; bits != 0; bits &= bits - 1) {
      const auto connection =
          static_cast<std::uint32_t>(w) * kWordBits + static_cast<std::uint32_t>(std::countr_zero(bits));
      moved = PumpRing(transport, connection) || moved;
    }
  }
  if (moved) transport.Flush(rank_);
  return moved;
}

bool NetworkPeer::PumpRing(NetworkTransport& transport, std::uint32_t connection) {
  auto& ring = outgoing_[connection];
  bool moved = false;
  // A ring without credit becomes pending again with the credit.
  while (ring.Filled() && ring.MayGo() && !(recalled_ && ring.NextRefers())) {
    if (transport.Room(rank_) == 0) {
      SetPending(connection);
      break;
    }
    if (!moved) {
      // The operation's record goes ahead of its slots, and credits that the peer waits for go along.
      Announce(transport);
      PumpCredits(transport, Tell::along);
    }
    const std::byte* data = nullptr;
    const auto message = ring.Take(connection, data);
    transport.Send(rank_, message, data);
    moved = true;
  }
  return moved;
}

bool NetworkPeer::PumpCredits(NetworkTransport& transport, Tell which) {
  Credits credits;  // only the count is initialised: this is called often and rarely has anything to send
  bool told = false;
  const auto send = [&] {
    if (credits.count == 0) return;
    SendControl(transport, credits);
    credits.count = 0;
    told = true;
  };
  for (std::size_t w = 0; w < words_; ++w) {
    for (auto bits = owing_[w]; bits != 0; bits &= bits - 1) {
      const auto bit = static_cast<std::uint32_t>(std::countr_zero(bits));
      const auto connection = static_cast<std::uint32_t>(w) * kWordBits + bit;
      auto& ring = incoming_[connection];
      if (ring.news() < WorthTelling(which, ring.credits())) continue;
      credits.Add({connection, ring.Tell()});
      if (!ring.owes()) owing_[w] &= ~(std::uint64_t{1} << bit);
      if (credits.count == Credits::kMost) send();
    }
  }
  send();
  return told;
}

void NetworkPeer::Announce(NetworkTransport& transport) {
  const auto& own = fabric_.control(fabric_.rank());
  // Acquires the records: a GPU's are written by another thread.
  constexpr auto relaxed = std::memory_order_relaxed;
  const auto newest = own.newest.load(std::memory_order_acquire);
  const auto mark = own.mark.load(std::memory_order_acquire);
  // A GPU's watch writes the mark after the record, and this may have run in between: then the record is sent once
  // more.
  if (mark != announced_mark_ && announced_ == newest && newest > 0) --announced_;
  announced_mark_ = mark;
  // Announces also some operations without slots for this peer, which may have expected some.
  if (newest > kAnnouncedAtOnce) announced_ = std::max(announced_, newest - kAnnouncedAtOnce);
  while (announced_ < newest) {
    const auto& record = own.records[++announced_ % ring::kRecords];
    const auto origin = record.origin.load(relaxed);
    AnnounceSite(transport, ring::SiteIn(origin));
    SendControl(transport, Status{announced_,
                                  {record.sequence.load(relaxed), record.signature.load(relaxed),
                                   record.call.load(relaxed), record.count.load(relaxed), 0, origin},
                                  own.started.load(relaxed),
                                  own.completed.load(relaxed),
                                  mark});
  }
}

void NetworkPeer::AnnounceSite(NetworkTransport& transport, std::uint32_t number) {
  auto& announced = announced_sites_[number % ring::kCallSites];
  if (announced == number) return;
  announced = number;
  if (auto site = ring::ReadCallSite(fabric_.control(fabric_.rank()).sites, number)) {
    SendControl(transport, Site{number, std::move(*site)});
  }
}

void NetworkPeer::SendControl(NetworkTransport& transport, const NetworkMessage& message) {
  Encode(message, bytes_);
  transport.SendControl(rank_, bytes_);
}

std::byte* NetworkPeer::Landing(const SlotMessage& message) const {
  return message.connection < incoming_.size() ? incoming_[message.connection].Landing(message) : nullptr;
}

std::byte* NetworkPeer::LandingInPlace(const SlotMessage& message) {
  return message.connection < incoming_.size() ? incoming_[message.connection].LandingInPlace(message) : nullptr;
}

void NetworkPeer::Landed(const SlotMessage& message) {
  auto& ring = incoming_[message.connection];
  const bool kept = ring.keeps();
  ring.Landed(message);
  if (ring.keeps() && !kept) keeping_.push_back(message.connection);
  owing_[message.connection / kWordBits] |= std::uint64_t{1} << message.connection % kWordBits;
}

ConnectionMemory NetworkPeer::Memory(std::uint32_t connection) const {
  return connection < connections() ? memory_[connection] : ConnectionMemory{};
}

bool NetworkPeer::Take(const NetworkMessage& message) {
  return std::visit([this](const auto& each) { return Take(each); }, message);
}

bool NetworkPeer::Take(const Credits& credits) {
  for (const auto& credit : credits.all()) {
    if (credit.connection >= outgoing_.size() || !outgoing_[credit.connection].Acknowledge(credit.emptied))
      return false;
    SetPending(credit.connection);
  }
  return true;
}

bool NetworkPeer::Take(const Status& status) {
  const auto newest = shadow().newest.load(std::memory_order_relaxed);
  const auto completed = shadow().completed.load(std::memory_order_relaxed);
  // A newer status came first, on another stream.
  if (left || status.index < newest || (status.index == newest && status.completed < completed)) return true;
  if (status.index > newest) ring::WriteRecord(shadow(), status.index, status.operation);
  shadow().completed.store(status.completed, std::memory_order_release);
  shadow().started.store(status.started, std::memory_order_release);
  shadow().mark.store(status.mark, std::memory_order_release);
  return true;
}

bool NetworkPeer::Take(const Site& site) {
  if (site.number == 0) return false;
  ring::WriteCallSite(shadow().sites, site.number, site.site);
  return true;
}

bool NetworkPeer::Take(const Failed& failed) {
  auto& control = shadow();
  const auto length = std::min(failed.text.size(), ring::kFaultText - 1);
  std::memcpy(control.fault_text.data(), failed.text.data(), length);
  control.fault_text[length] = '\0';
  control.fault_code.store(failed.code, std::memory_order_relaxed);
  control.completed.store(std::max(failed.completed, control.completed.load(std::memory_order_relaxed)),
                          std::memory_order_release);
  control.state.store(failed.stopped != 0 ? ring::RankState::stopped : ring::RankState::failed,
                      std::memory_order_release);
  return true;
}

bool NetworkPeer::Take(const Leaving& leaving) {
  shadow().completed.store(leaving.completed, std::memory_order_release);
  shadow().state.store(ring::RankState::left, std::memory_order_release);
  left = true;
  return true;
}

}  // namespace tutti::progress
