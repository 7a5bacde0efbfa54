#include "tests/model/memory.h"

#include <cstring>
#include <stdexcept>

namespace tutti::model {

void Memory::Reset() {
  for (int i = 0; i < used_; ++i) locations_[i].history.clear();
  used_ = 0;
  for (auto& actor : actors_) {
    actor.current = actor.acquired = actor.released = View{};
    actor.events = 0;
    actor.streams = 1;
    actor.past = Hash{};
    actor.reads.clear();
    actor.wrote = false;
  }
  for (int a = 0; a < kActors; ++a) actors_[a].current.clock.at[a] = 1;
  order_ = View{};
  kept_.clear();
}

int Memory::Find(const volatile void* address, int bytes) {
  const auto key = reinterpret_cast<std::uintptr_t>(address);
  for (int i = 0; i < used_; ++i) {
    if (locations_[i].address == key) return i;
  }
  if (used_ == kMostLocations) throw std::length_error("a model has more atomics than kMostLocations");
  auto& fresh = locations_[used_];
  fresh.address = key;
  fresh.history.resize(1);
  auto& first = fresh.history.front();
  first = Stored{};
  std::memcpy(&first.value, const_cast<const void*>(address), static_cast<std::size_t>(bytes));
  return used_++;
}

template <typename Do>
void Memory::ForViews(Do&& function) {
  for (auto& actor : actors_) {
    function(actor.current);
    function(actor.acquired);
    function(actor.released);
  }
  for (int i = 0; i < used_; ++i) {
    for (auto& store : locations_[i].history) function(store.view);
  }
  function(order_);
  for (auto* view : kept_) function(*view);
}

std::vector<int>& Memory::Readable(int actor, int location, std::memory_order order) {
  int oldest = actors_[actor].current.seen[location];
  if (IsSc(order)) oldest = std::max<int>(oldest, order_.seen[location]);
  places_.clear();
  // The newest first: threads read it most often.
  for (int place = static_cast<int>(locations_[location].history.size()) - 1; place >= oldest; --place) {
    places_.push_back(place);
  }
  return places_;
}

void Memory::Took(int actor, int location, int place, std::memory_order order) {
  auto& reader = actors_[actor];
  const auto& store = locations_[location].history[place];
  const auto at = static_cast<std::uint8_t>(place);
  reader.current.seen[location] = at;
  if (IsSc(order)) order_.seen[location] = at;
  (Acquires(order) ? reader.current : reader.acquired).Join(store.view);
  reader.past.Fold(locations_[location].address);
  reader.past.Fold(store.name.actor * 65536ULL + store.name.event);
  const ReadMark mark{static_cast<std::uint8_t>(location), store.name};
  if (std::find(reader.reads.begin(), reader.reads.end(), mark) == reader.reads.end()) reader.reads.push_back(mark);
}

std::uint64_t Memory::Load(int actor, const volatile void* address, int bytes, std::memory_order order) {
  const int at = Find(address, bytes);
  const auto& places = Readable(actor, at, order);
  const int place = places[chooser_.Choose(static_cast<int>(places.size()))];
  Took(actor, at, place, order);
  return locations_[at].history[place].value;
}

void Memory::Store(int actor, volatile void* address, int bytes, std::uint64_t value, std::memory_order order) {
  const int at = Find(address, bytes);
  std::vector<int>& places = Readable(actor, at, order);
  const auto& history = locations_[at].history;
  // Anywhere after the stores that the actor knows, but not between a store and the read-modify-write that follows it.
  std::erase_if(places,
                [&](int place) { return place + 1 < static_cast<int>(history.size()) && history[place + 1].follows; });
  const int place = places[chooser_.Choose(static_cast<int>(places.size()))];
  Put(actor, at, place + 1, value, order, false);
}

void Memory::Refresh(const volatile void* address, int bytes, StoreName name) {
  const int at = Find(address, bytes);
  auto& history = locations_[at].history;
  history.resize(1);
  history.front() = Stored{};
  history.front().name = name;
  std::memcpy(&history.front().value, const_cast<const void*>(address), static_cast<std::size_t>(bytes));
  ForViews([&](View& view) { view.seen[at] = 0; });
}

void Memory::Put(int actor, int location, int place, std::uint64_t value, std::memory_order order, bool follows) {
  auto& history = locations_[location].history;
  if (history.size() == 255) throw std::length_error("a model stores to one atomic more than 254 times");
  const auto at = static_cast<std::uint8_t>(place);
  if (place < static_cast<int>(history.size())) {
    ForViews([&](View& view) {
      if (view.seen[location] >= at) ++view.seen[location];
    });
  }
  auto& writer = actors_[actor];
  writer.current.seen[location] = at;
  if (IsSc(order)) order_.seen[location] = at;
  Stored store;
  store.value = value;
  store.name = {static_cast<std::uint8_t>(actor), Tick(actor)};
  store.follows = follows;
  store.view = Releases(order) ? writer.current : writer.released;
  if (Releases(order)) --store.view.clock.at[actor];  // excludes this store itself
  store.view.seen[location] = at;
  if (follows) store.view.Join(history[place - 1].view);  // the release sequence continues
  writer.past.Fold(locations_[location].address ^ 1);
  writer.past.Fold(value);
  writer.wrote = true;
  history.insert(history.begin() + place, store);
}

std::uint16_t Memory::Tick(int actor) {
  ++actors_[actor].current.clock.at[actor];
  return ++actors_[actor].events;
}

void Memory::Fence(int actor, std::memory_order order) {
  auto& self = actors_[actor];
  if (Acquires(order)) self.current.Join(self.acquired);
  if (IsSc(order)) {
    self.current.JoinSeen(order_);
    order_.JoinSeen(self.current);
    // The fence's result depends on when it runs.
    self.past.Add(NameOf(order_));
  }
  if (Releases(order)) self.released = self.current;
  self.past.Fold(2);
  Tick(actor);
}

Hash Memory::NameOf(const View& view) const {
  Hash sum;
  for (int i = 0; i < used_; ++i) {
    if (view.seen[i] == 0) continue;
    const auto& name = locations_[i].history[view.seen[i]].name;
    Hash known;
    known.Fold(locations_[i].address);
    known.Fold(name.actor * 65536ULL + name.event);
    sum.Add(known);
  }
  for (const auto count : view.clock.at) sum.Fold(count);
  return sum;
}

void Memory::Forget(int actor, const Hash& before) {
  auto& self = actors_[actor];
  self.past = before;
  for (const auto* view : {&self.current, &self.acquired}) {
    const auto name = NameOf(*view);
    self.past.Fold(name.low);
    self.past.Fold(name.high);
  }
}

void Memory::FenceEverywhere(int actors) {
  // Twice, so that every actor learns what all other actors' fences added to the order.
  for (int round = 0; round < 2; ++round) {
    for (int a = 0; a < actors; ++a) Fence(a, std::memory_order_seq_cst);
  }
}

void Memory::StreamFence(int actor) {
  auto& self = actors_[actor];
  self.current.clock.at[StreamOf(actor)] = self.streams++;
  self.past.Fold(3);
}

void Memory::Learn(int actor, const View& view, bool happens_before) {
  if (happens_before) {
    actors_[actor].current.Join(view);
  } else {
    actors_[actor].current.JoinSeen(view);
  }
}

void Memory::JoinAll(int actors) {
  for (int a = 0; a < actors; ++a) actors_[kEnd].current.Join(actors_[a].current);
}

void Memory::Turn(int actor) {
  actors_[actor].reads.clear();
  actors_[actor].wrote = false;
}

bool Memory::Overtaken(const ReadMark& mark) const {
  return locations_[mark.location].history.back().name != mark.store;
}

void Memory::FoldState(Hash& state, int actors) const {
  for (int a = 0; a < actors; ++a) {
    state.Fold(actors_[a].past.low);
    state.Fold(actors_[a].past.high);
  }
  Hash sum;
  for (int i = 0; i < used_; ++i) {
    const auto& location = locations_[i];
    if (location.history.size() == 1) continue;
    Hash one;
    one.Fold(location.address);
    for (const auto& store : location.history) one.Fold(store.name.actor * 65536ULL + store.name.event);
    one.Fold(order_.seen[i]);
    sum.Add(one);
  }
  state.Fold(sum.low);
  state.Fold(sum.high);
}

}  // namespace tutti::model
