// A connection's rings from the network's side: the one that this rank fills for the peer, and the one that the network fills
// with the peer's slots. Both sides count slots. The receiver's counts come back as credits and bound those in flight.
//
// Thread-safety: one thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "transports/progress/network_transport.h"
#include "transports/ring/slot.h"

namespace tutti::progress {

// The most slots of a bulk ring that are in flight or unread, where the receiver also keeps slots outside of its ring.
inline constexpr std::uint32_t kRunAhead = 16;

// How many slots of a ring may be in flight or unread at the same time. Each takes one credit, and there are as many as
// the ring has slots. With run-ahead there are kRunAhead credits, and a slot takes one for each part of its bytes: so
// many short slots, or as many long ones as the ring has. An honest sender then never has more bytes there than the
// ring holds, and any sender at most kRunAhead slots.
class Window {
 public:
  Window() = default;
  explicit Window(std::uint32_t depth) : credits_(depth) {}
  // REQUIRES: at most kRunAhead slots.
  static Window WithRunAhead(const ring::SlotShape& shape) {
    Window window(kRunAhead);
    window.most_ = kRunAhead / shape.depth;
    window.part_ = std::max(shape.capacity / window.most_, 1U);
    return window;
  }

  std::uint32_t credits() const { return credits_; }
  // Credits that a slot of so many bytes takes.
  std::uint32_t Of(std::uint32_t bytes) const {
    return part_ == 0 ? 1 : std::clamp((bytes + part_ - 1) / part_, 1U, most_);
  }
  void Note(std::uint32_t number, std::uint32_t bytes) {
    if (part_ != 0) taken_[number % kRunAhead] = static_cast<std::uint8_t>(Of(bytes));
  }
  // Credits that the slots after number `begin` take, up to number `end`. REQUIRES: they were noted.
  std::uint32_t Sum(std::uint32_t begin, std::uint32_t end) const {
    if (part_ == 0) return end - begin;
    std::uint32_t sum = 0;
    for (std::uint32_t number = begin; number != end;) sum += taken_[++number % kRunAhead];
    return sum;
  }

 private:
  std::uint32_t credits_ = 0;
  std::uint32_t most_ = 1;                       // credits of a slot
  std::uint32_t part_ = 0;                       // bytes for a credit; 0: each slot takes one
  std::array<std::uint8_t, kRunAhead> taken_{};  // by number
};

// The sending half of a connection.
class OutgoingRing {
 public:
  OutgoingRing() = default;
  // `head`: where the ring's filler reads how many of its slots are free again.
  OutgoingRing(const RingMemory& memory, std::atomic<std::uint32_t>* head)
      : memory_(memory), window_(memory.shape.depth), head_(head) {}

  // The peer keeps slots outside of its ring. Before the first slot.
  void AllowRunAhead() { window_ = Window::WithRunAhead(memory_.shape); }
  // The next slot has been filled.
  bool Filled() const { return ring::FlagNumber(Next().flag.load(std::memory_order_acquire)) == taken_ + 1; }
  // The receiver has room for it. REQUIRES: Filled().
  bool MayGo() const { return window_.Sum(acknowledged_, taken_) + window_.Of(Next().bytes) <= window_.credits(); }
  // Sets `data` to the slot's data: in the slot, or where the slot refers to. REQUIRES: Filled() and MayGo().
  SlotMessage Take(std::uint32_t connection, const std::byte*& data);
  // Slot `number` no longer needs its memory.
  void Sent(std::uint32_t number);
  // Nor do any others that were taken. REQUIRES: Sent() is not called any more.
  void AllSent();
  // The next slot refers to memory that is not the ring's. REQUIRES: Filled().
  bool NextRefers() const { return Next().kind == ring::SlotKind::pointer; }
  // The transport may still read memory that is not the ring's.
  bool Lends() const;
  // The receiver has emptied this many; older counts are ignored. False: more than were sent.
  bool Acknowledge(std::uint32_t emptied);

 private:
  const ring::SlotHeader& HeaderOf(std::uint32_t count) const {
    return *reinterpret_cast<const ring::SlotHeader*>(memory_.Header(count));
  }
  const ring::SlotHeader& Next() const { return HeaderOf(taken_); }

  RingMemory memory_;
  Window window_;
  std::atomic<std::uint32_t>* head_ = nullptr;
  std::uint32_t taken_ = 0;         // given to the transport
  std::uint32_t sent_ = 0;          // of those, sent without a gap
  std::uint64_t sent_beyond_ = 0;   // bit i: slot sent_ + 1 + i is sent, too
  std::uint32_t acknowledged_ = 0;  // emptied by the receiver
};

// The receiving half.
class IncomingRing {
 public:
  IncomingRing() = default;
  // `head`: where the ring's emptier publishes its count.
  IncomingRing(const RingMemory& memory, const std::atomic<std::uint32_t>* head)
      : memory_(memory), window_(memory.shape.depth), head_(head) {}

  // Keeps slots outside of the ring while this is full. Before the first slot. REQUIRES: bulk slots, LandingInPlace() is asked, and
  // the emptier follows references (SlotKind::pointer).
  void AllowRunAhead() { window_ = Window::WithRunAhead(memory_.shape); }
  // The call that reads the slot wants its data at `destination`. No effect if they are on their way already. REQUIRES:
  // nothing else uses that memory until the slot has landed.
  void Expect(const SlotMessage& slot, std::byte* destination);
  // Data that are not on their way yet land in the ring, whatever Expect() said.
  void ForgetExpected();
  // Null if the slot is not free or too small.
  std::byte* Landing(const SlotMessage& message) const;
  // The same, or where the slot is expected, or outside of the ring. Null also if this slot came before.
  std::byte* LandingInPlace(const SlotMessage& message);
  // REQUIRES: one of them gave the data's place, and the data is there.
  void Landed(const SlotMessage& message);
  // Some slots have landed that the ring has no room for yet.
  bool keeps() const { return !kept_.empty(); }
  // Shows the emptier those that it has room for now. True: there were some.
  bool ShowKept();
  // Some data are on their way to memory that is not the ring's.
  bool Borrows() const {
    return std::ranges::any_of(arrivals_, [](const Arrival& each) { return each.borrowed; });
  }
  std::uint32_t emptied() const { return head_->load(std::memory_order_acquire); }
  // Some slots have landed that are not yet reported as emptied.
  bool owes() const { return told_ != landed_; }
  // Credits for slots emptied since the last report to the sender.
  std::uint32_t news() const { return window_.Sum(told_, emptied()); }
  std::uint32_t credits() const { return window_.credits(); }
  std::uint32_t Tell() { return told_ = emptied(); }

 private:
  // So many unread slots come before slot `number`. REQUIRES: it is unread.
  std::uint32_t Before(std::uint32_t number) const { return number - emptied() - 1; }
  bool HasPlace(std::uint32_t number) const { return Before(number) < memory_.shape.depth; }

  // A slot that may come, is coming or has come, by number modulo the window.
  struct Arrival {
    std::uint32_t begun = 0;           // the last slot at this place whose data are on their way, or have landed
    SlotMessage expected{};            // number 0: none is expected
    std::byte* destination = nullptr;  // of the expected one
    bool borrowed = false;             // the transport writes there
    std::byte* at = nullptr;           // where the data of slot `begun` go, if not to a slot
  };
  Arrival& ArrivalOf(std::uint32_t number) {
    if (arrivals_.empty()) arrivals_.resize(window_.credits());
    return arrivals_[number % arrivals_.size()];
  }
  // Memory outside of the ring, for slot `number`. Null: there is none.
  std::byte* Outside(std::uint32_t number);
  // REQUIRES: HasPlace(). `at`: null, or where its data are.
  void Show(const SlotMessage& message, std::byte* at);

  RingMemory memory_;
  Window window_;
  const std::atomic<std::uint32_t>* head_ = nullptr;
  std::uint32_t landed_ = 0;
  std::uint32_t told_ = 0;
  std::vector<Arrival> arrivals_;  // empty until it is used; as many as a power of two
  struct Kept {
    SlotMessage slot;
    std::byte* at;
  };
  std::vector<Kept> kept_;
  struct Buffer {
    std::unique_ptr<std::byte[]> memory;
    std::uint32_t number;  // the last slot that it was used for
  };
  std::vector<Buffer> outside_;  // the first free one is taken, so that few are in use and in the cache
};

}  // namespace tutti::progress
