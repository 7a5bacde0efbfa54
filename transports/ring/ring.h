// The two ends of a ring of slots. An end is this process's view: plain data plus pointers into shared memory.
//
// Words that another process writes (flags, heads, headers) are loaded once and compared before they are used. None of
// them is an index or the bound of a loop: an end counts its own slots. A peer whose words are garbage makes this rank
// wait, or see a fault; it does not make it write or read elsewhere.
//
// Thread-safety: each end is used by one thread at a time. Invariants: tail - head <= depth for every emptier; counts
// start at 0 and slot number c carries flag number c + 1 (so that zeroed memory is no valid flag).
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "transports/ring/slot.h"

namespace tutti::ring {

class FillEnd {
 public:
  FillEnd() = default;
  // `heads`: where each emptier publishes its count. `recalls`: see Recall().
  FillEnd(std::byte* slots, SlotShape shape, std::vector<const std::atomic<std::uint32_t>*> heads,
          std::vector<std::atomic<std::uint32_t>*> recalls = {})
      : slots_(slots), shape_(shape), heads_(std::move(heads)), recalls_(std::move(recalls)) {}

  bool HasRoom() {
    if (FreeSlots(tail_, known_head_, shape_.depth) > 0) return true;
    known_head_ = SlowestHead();
    return FreeSlots(tail_, known_head_, shape_.depth) > 0;
  }
  // Every emptier has emptied everything filled so far.
  bool Drained() {
    if (known_head_ != tail_) known_head_ = SlowestHead();
    return known_head_ == tail_;
  }

  // The emptier is a network engine, which this bit notifies of filled slots.
  void Notify(std::atomic<std::uint64_t>* pending, std::uint64_t bit) {
    pending_ = pending;
    bit_ = bit;
  }
  bool by_network() const { return pending_ != nullptr; }

  // The data of successive slots change places over `span` bytes of a slot (PlaceInSlot). REQUIRES: nothing was filled
  // yet, and the emptiers do likewise.
  void Spread(std::size_t span) { span_ = std::min<std::size_t>(span, shape_.capacity); }
  std::size_t span() const { return span_; }

  // REQUIRES: HasRoom().
  SlotHeader& Header() const { return *reinterpret_cast<SlotHeader*>(Slot()); }
  std::byte* Data() const { return Slot() + shape_.data_offset; }
  // The same for a bulk slot, whose data may change places.
  std::byte* Data(std::size_t bytes) const { return Data() + PlaceInSlot(tail_, shape_.depth, bytes, span_); }
  // Makes the slot visible. REQUIRES: the calling thread has fenced its non-temporal stores to memory that the slot
  // refers to. (The slot's own bytes are written by plain stores, which the flag's release orders.)
  void Publish(std::uint32_t tag) {
    Header().flag.store(SlotFlag(tail_ + 1, tag), std::memory_order_release);
    ++tail_;
    // Release: the thread that takes the bit sees the slot.
    if (pending_ != nullptr) pending_->fetch_or(bit_, std::memory_order_release);
    // The next slot's line was last read by the emptier: fetch it back for writing while the message is on its way.
    __builtin_prefetch(Slot(), 1);
  }

  // Takes back the memory that the slots so far refer to: the call that lent it has failed, and its caller may write there
  // once this has returned. An emptier that has not asked Recalled() of a slot by then gets true.
  //
  // Both are read-modify-writes of one word, so one comes first. If the emptier's does, this one acquires what it released,
  // and all that the emptier has read was there before the caller's writes. Else the emptier sees that it comes too late.
  void Recall() {
    for (auto* recall : recalls_) recall->exchange(1, std::memory_order_acq_rel);
  }

  const SlotShape& shape() const { return shape_; }
  std::byte* slots() const { return slots_; }

 private:
  std::byte* Slot() const { return slots_ + std::size_t{SlotIndex(tail_, shape_.depth)} * shape_.stride; }
  std::uint32_t SlowestHead() const {
    std::uint32_t lag = 0;
    for (const auto* head : heads_) lag = std::max(lag, tail_ - head->load(std::memory_order_acquire));
    return tail_ - lag;
  }

  std::byte* slots_ = nullptr;
  SlotShape shape_{};
  std::size_t span_ = 0;
  std::uint32_t tail_ = 0;
  std::uint32_t known_head_ = 0;
  std::atomic<std::uint64_t>* pending_ = nullptr;
  std::uint64_t bit_ = 0;
  std::vector<const std::atomic<std::uint32_t>*> heads_;
  std::vector<std::atomic<std::uint32_t>*> recalls_;
};

class EmptyEnd {
 public:
  enum class State { waiting, ready, foreign };  // foreign: the slot came, but from another operation

  EmptyEnd() = default;
  // `head`: where this end publishes its count. `recall`: see FillEnd::Recall(); null: no slot refers to memory.
  EmptyEnd(const std::byte* slots, SlotShape shape, int peer, std::atomic<std::uint32_t>* head,
           std::atomic<std::uint32_t>* recall = nullptr)
      : slots_(slots), shape_(shape), peer_(peer), head_(head), recall_(recall) {}

  State Look(std::uint32_t tag) const {
    const std::uint64_t flag = Header().flag.load(std::memory_order_acquire);
    if (flag == SlotFlag(count_ + 1, tag)) return State::ready;
    return FlagNumber(flag) == count_ + 1 ? State::foreign : State::waiting;
  }

  // As FillEnd::Spread.
  void Spread(std::size_t span) { span_ = std::min<std::size_t>(span, shape_.capacity); }
  std::size_t span() const { return span_; }

  // REQUIRES: Look() == ready; for Reference(), the slot is a bulk one (in the others the data begins there).
  SlotContent Content() const { return {LoadOnce(Header().bytes), LoadOnce(Header().kind)}; }
  SlotReference Reference() const { return {LoadOnce(Header().address), LoadOnce(Header().window)}; }
  const std::byte* Data() const { return Slot() + shape_.data_offset; }
  // The same for a bulk slot, whose data may change places.
  const std::byte* Data(std::size_t bytes) const { return Data() + PlaceInSlot(count_, shape_.depth, bytes, span_); }
  // Asked after the memory that a slot refers to was read: true if its owner has taken it back, perhaps before that.
  bool Recalled() const { return recall_ != nullptr && recall_->fetch_add(0, std::memory_order_acq_rel) != 0; }
  // The data has been read; the filler may use the slot again.
  void Release() {
    ++count_;
    head_->store(count_, std::memory_order_release);
  }

  const SlotShape& shape() const { return shape_; }
  const std::byte* slots() const { return slots_; }
  int peer() const { return peer_; }
  // Slots that were emptied so far.
  std::uint32_t count() const { return count_; }

 private:
  // A relaxed atomic load: the compiler may not load the word a second time, and the flag's acquire orders it.
  template <typename Word>
  static Word LoadOnce(const Word& word) {
    return std::atomic_ref<Word>(const_cast<Word&>(word)).load(std::memory_order_relaxed);
  }
  const SlotHeader& Header() const { return *reinterpret_cast<const SlotHeader*>(Slot()); }
  const std::byte* Slot() const { return slots_ + std::size_t{SlotIndex(count_, shape_.depth)} * shape_.stride; }

  const std::byte* slots_ = nullptr;
  SlotShape shape_{};
  std::size_t span_ = 0;
  std::uint32_t count_ = 0;
  int peer_ = -1;
  std::atomic<std::uint32_t>* head_ = nullptr;
  std::atomic<std::uint32_t>* recall_ = nullptr;
};

}  // namespace tutti::ring
