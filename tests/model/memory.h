// The atomics' memory: C++20's rules for relaxed, acquire, release and sequentially consistent operations and fences,
// implemented with views (view.h). docs/memory-model.md says where this differs from the standard's text.
//
// Thread-safety: one thread; the model's threads are fibers of it.
#pragma once

#include <optional>
#include <vector>

#include "tests/model/view.h"

namespace tutti::model {

// Picks one of `count` ways to continue.
class Chooser {
 public:
  virtual ~Chooser() = default;
  virtual int Choose(int count) = 0;
};

// The name of a store in the history: its actor and that actor's event.
struct StoreName {
  std::uint8_t actor = kEnd;
  std::uint16_t event = 0;
  bool operator==(const StoreName&) const = default;
};

struct ReadMark {
  std::uint8_t location = 0;
  StoreName store;
  bool operator==(const ReadMark&) const = default;
};

class Memory {
 public:
  explicit Memory(Chooser& chooser) : chooser_(chooser) {}

  // Forgets everything: a location's first value is what its bytes hold on first access.
  void Reset();

  std::uint64_t Load(int actor, const volatile void* address, int bytes, std::memory_order order);
  void Store(int actor, volatile void* address, int bytes, std::uint64_t value, std::memory_order order);
  // A read-modify-write; if `update` returns nothing (a failed compare-exchange), a load with order `failed`. Returns
  // the value read.
  template <typename Update>
  std::uint64_t Rmw(int actor, volatile void* address, int bytes, std::memory_order order, std::memory_order failed,
                    Update&& update) {
    const int at = Find(address, bytes);
    std::vector<int>& places = Readable(actor, at, order);
    std::erase_if(places, [&](int place) {
      const auto& history = locations_[at].history;
      const bool last = place + 1 == static_cast<int>(history.size());
      return update(history[place].value) && !last && history[place + 1].follows;
    });
    const int place = places[chooser_.Choose(static_cast<int>(places.size()))];
    const auto old = locations_[at].history[place].value;
    if (const std::optional<std::uint64_t> next = update(old)) {
      Took(actor, at, place, order);
      Put(actor, at, place + 1, *next, order, true);
    } else {
      Took(actor, at, place, failed);
    }
    return old;
  }
  void Fence(int actor, std::memory_order order);
  // An actor has plainly written these bytes, ordered with all accesses by others. Their present value becomes the
  // location's whole history.
  void Refresh(const volatile void* address, int bytes, StoreName name);
  // A sequentially consistent fence of every actor at once, wherever it is (membarrier).
  void FenceEverywhere(int actors);
  void StreamFence(int actor);

  // Views that actors exchange by other means of synchronization.
  void Learn(int actor, const View& view, bool happens_before);
  const View& Knowledge(int actor) const { return actors_[actor].current; }
  // Registers an external view, to be updated when the history changes.
  void Keep(View& view) { kept_.push_back(&view); }
  // Gives the end actor all actors' knowledge.
  void JoinAll(int actors);

  std::uint16_t stream_stamp(int actor) const { return actors_[actor].streams; }
  // The hash of what the actor has seen and done so far names its state.
  void Note(int actor, std::uint64_t what) { actors_[actor].past.Fold(what); }
  const Hash& past(int actor) const { return actors_[actor].past; }
  // Replaces what the actor read since `before` by that past and its present knowledge.
  void Forget(int actor, const Hash& before);
  std::uint16_t Tick(int actor);

  // The actor's reads since its last Turn(), and whether it wrote.
  const std::vector<ReadMark>& reads(int actor) const { return actors_[actor].reads; }
  bool wrote(int actor) const { return actors_[actor].wrote; }
  void Wrote(int actor) { actors_[actor].wrote = true; }
  void Turn(int actor);
  // Whether a newer store exists than the one in the mark.
  bool Overtaken(const ReadMark& mark) const;

  void FoldState(Hash& state, int actors) const;
  std::uintptr_t AddressOf(int location) const { return locations_[location].address; }

 private:
  struct Stored {
    std::uint64_t value = 0;
    View view;  // passed to acquiring actors
    StoreName name;
    bool follows = false;  // it is a read-modify-write of the store before: no store comes between
  };
  struct Location {
    std::uintptr_t address = 0;
    std::vector<Stored> history;
  };
  struct Actor {
    View current;
    View acquired;  // from relaxed loads, for an acquire fence
    View released;  // as of the last release fence, for relaxed stores
    std::uint16_t events = 0;
    std::uint16_t streams = 1;
    Hash past;
    std::vector<ReadMark> reads;
    bool wrote = false;
  };

  int Find(const volatile void* address, int bytes);
  std::vector<int>& Readable(int actor, int location, std::memory_order order);
  void Took(int actor, int location, int place, std::memory_order order);
  void Put(int actor, int location, int place, std::uint64_t value, std::memory_order order, bool follows);
  Hash NameOf(const View& view) const;
  template <typename Do>
  void ForViews(Do&& function);

  Chooser& chooser_;
  int used_ = 0;
  std::array<Location, kMostLocations> locations_;
  std::array<Actor, kActors> actors_;
  View order_;  // of the sequentially consistent operations so far
  std::vector<View*> kept_;
  std::vector<int> places_;
};

}  // namespace tutti::model
