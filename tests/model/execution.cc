#include "tests/model/execution.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace tutti::model {
namespace {

Execution* running = nullptr;

const char* NameOf(std::memory_order order) {
  switch (order) {
    case std::memory_order_relaxed: return "relaxed";
    case std::memory_order_release: return "release";
    case std::memory_order_acq_rel: return "acq_rel";
    case std::memory_order_seq_cst: return "seq_cst";
    default: return "acquire";
  }
}

}  // namespace

Execution* Running() { return running; }

Execution* Checking() { return running != nullptr && running->checking() ? running : nullptr; }

Execution::Execution(Guide& guide) : guide_(guide), memory_(guide) {
  for (int a = 0; a < kMostThreads; ++a) fibers_.push_back(std::make_unique<Fiber>([this, a] { Body(a); }));
  running = this;
}

Execution::~Execution() { running = nullptr; }

Execution::End Execution::Run(const MakeProgram& make, const Options& options) {
  options_ = &options;
  heap_.Reset();
  memory_.Reset();
  monitors_.clear();
  weakenings_.clear();
  names_.clear();
  events_.clear();
  steps_ = 0;
  bells_ = 0;
  actor_ = kEnd;
  phase_ = Phase::making;
  inside_ = false;
  const Program program = make();
  phase_ = Phase::idle;
  program_ = &program;
  actors_ = static_cast<int>(program.threads.size());
  if (actors_ > kMostThreads) throw std::length_error("a model has more threads than kMostThreads");
  for (int a = 0; a < actors_; ++a) {
    threads_[a] = Thread{};
    fibers_[a]->Restart();
  }
  phase_ = Phase::threads;
  // Each thread runs to its first operation that other threads' operations may precede; then one is picked.
  starting_ = true;
  for (actor_ = 0; actor_ < actors_; ++actor_) Fiber::Jump(main_, fibers_[actor_]->place());
  starting_ = false;
  ended_ = End::finished;
  actor_ = Pick();
  if (actor_ >= 0) Fiber::Jump(main_, fibers_[actor_]->place());
  actor_ = kEnd;
  if (ended_ == End::finished && program.finally) {
    memory_.JoinAll(actors_);
    phase_ = Phase::end;
    inside_ = false;
    program.finally();
  }
  phase_ = Phase::idle;
  return ended_;
}

void Execution::Body(int actor) {
  inside_ = false;
  try {
    program_->threads[actor]();
  } catch (const std::exception& exception) {
    inside_ = true;
    Fail(fmt::format("it ends in \"{}\"", exception.what()));
  }
  inside_ = true;
  threads_[actor].wait = Wait::over;
  memory_.Note(actor, 6);
  HandOver();
}

void Execution::HandOver() {
  if (phase_ != Phase::threads) return;
  const int self = actor_;
  if (starting_) {
    Fiber::Jump(fibers_[self]->place(), main_);
    return;
  }
  if (++steps_ > options_->most_steps) Fail("this goes on for ever, or for longer than most_steps");
  const int next = Pick();
  if (next < 0) _longjmp(main_, 1);
  if (next == self) return;
  actor_ = next;
  Fiber::Jump(fibers_[self]->place(), fibers_[next]->place());
}

void Execution::Leave(End end) {
  ended_ = end;
  std::longjmp(main_, 1);
}

// Returns a negative number if the execution is over.
int Execution::Pick() {
  std::array<int, kMostThreads> enabled;
  int count = 0;
  bool over = true;
  // Lists the running thread first, which saves jumps.
  for (int i = 0; i < actors_; ++i) {
    const int a = actor_ < actors_ ? (actor_ + i) % actors_ : i;
    over = over && threads_[a].wait == Wait::over;
    if (Enabled(a)) enabled[count++] = a;
  }
  if (over) return -1;
  if (count == 0) {
    std::string who;
    for (int a = 0; a < actors_; ++a) {
      if (threads_[a].wait != Wait::over) who += fmt::format(" {}", a);
    }
    failure_ = fmt::format("nobody wakes thread(s){}\n{}", who, Story());
    ended_ = End::failed;
    return -1;
  }
  Hash state;
  memory_.FoldState(state, actors_);
  Hash sum;
  for (const auto& monitor : monitors_) sum.Add(monitor->past);
  state.Fold(sum.low);
  state.Fold(sum.high);
  if (!guide_.IsNew(state)) {
    ended_ = End::known;
    return -1;
  }
  const int next = enabled[guide_.Choose(count)];
  auto& thread = threads_[next];
  if (thread.wait != Wait::none) memory_.Note(next, 5);  // it resumes
  thread.wait = Wait::none;
  return next;
}

bool Execution::Enabled(int actor) const {
  const auto& thread = threads_[actor];
  switch (thread.wait) {
    case Wait::none: return true;
    case Wait::spin:
      return std::any_of(thread.waits_on.begin(), thread.waits_on.end(),
                         [&](const ReadMark& mark) { return memory_.Overtaken(mark); });
    case Wait::lock: return Known(thread.object)->owner < 0;
    case Wait::bell: return std::ranges::any_of(thread.bells, [this](int bell) { return Rings(bell); });
    case Wait::futex:
    case Wait::over: break;
  }
  return false;
}

void Execution::Block(Wait wait, const void* object) {
  threads_[actor_].wait = wait;
  threads_[actor_].object = object;
  HandOver();
}

std::uint64_t Execution::Load(const volatile void* address, int bytes, std::memory_order order) {
  HandOver();
  TouchAtomic(address, bytes);
  order = Weakened(address, Operation::load, order);
  const auto value = memory_.Load(actor_, address, bytes, order);
  Tell("load", address, value, order);
  return value;
}

void Execution::Store(volatile void* address, int bytes, std::uint64_t value, std::memory_order order) {
  order = Weakened(address, Operation::store, order);
  if (IsSc(order) || !early()) HandOver();
  TouchAtomic(address, bytes);
  memory_.Store(actor_, address, bytes, value, order);
  Tell("store", address, value, order);
}

void Execution::Fence(std::memory_order order) {
  if (Dropped(Primitive::thread_fence)) return;
  if (IsSc(order) || !early()) HandOver();
  memory_.Fence(actor_, order);
  Tell("fence", nullptr, 0, order);
}

void Execution::Touch(const volatile void* address, std::size_t bytes, Access access) {
  if (!heap_.Contains(address)) return;
  const char* const wrong =
      heap_.Touch(actor_, memory_.Knowledge(actor_).clock, memory_.stream_stamp(actor_), address, bytes, access);
  if (wrong != nullptr) {
    const char* const what = access == Access::read ? "read" : access == Access::free ? "free" : "write";
    Tell(what, address, 0);
    Fail(fmt::format("the {} of {} {}", what, NameOf(address), wrong));
  }
}

void Execution::TouchAtomic(const volatile void* address, int bytes) {
  if (!heap_.Contains(address)) return;
  const char* const wrong =
      heap_.TouchAtomically(actor_, memory_.Knowledge(actor_).clock, address, static_cast<std::size_t>(bytes));
  if (wrong != nullptr) Fail(fmt::format("the atomic {} {}", NameOf(address), wrong));
  if (const auto write = heap_.TakePlainWrite(address)) {
    memory_.Refresh(address, bytes, {write->writer, write->stamp});
  }
}

void Execution::StreamFence() {
  if (Dropped(Primitive::stream_fence)) return;
  memory_.StreamFence(actor_);
  Tell("stream fence", nullptr, 0);
}

void Execution::Membarrier() {
  membarrier_seen_ = true;
  if (Dropped(Primitive::membarrier)) return;
  HandOver();
  memory_.FenceEverywhere(actors_);
  Tell("membarrier", nullptr, 0);
}

// If a loop iteration reads the same stores as the one before, the execution equals one without that iteration.
void Execution::Spin() {
  auto& thread = threads_[actor_];
  const auto& reads = memory_.reads(actor_);
  if (reads.empty()) Fail("a thread waits for nothing that anybody stores");
  if (!memory_.wrote(actor_) && thread.spun && thread.waits_on == reads) Leave(End::stutters);
  thread.waits_on = reads;
  thread.spun = true;
  memory_.Turn(actor_);
  memory_.Note(actor_, 4);
  Block(Wait::spin, nullptr);
}

// A condition that does not hold leaves no trace except what its thread now knows. So the thread's state does not
// depend on how often it checked. A thread waits only if it has read the newest store of everything.
void Execution::BeginAwait() {
  auto& thread = threads_[actor_];
  thread.before = memory_.past(actor_);
  memory_.Turn(actor_);
  memory_.Forget(actor_, thread.before);
  thread.turn = memory_.past(actor_);
}

void Execution::AwaitOnce() {
  auto& thread = threads_[actor_];
  if (memory_.wrote(actor_)) Fail("a condition that a thread awaits stores something");
  thread.waits_on = memory_.reads(actor_);
  const bool newest = std::none_of(thread.waits_on.begin(), thread.waits_on.end(),
                                   [&](const ReadMark& mark) { return memory_.Overtaken(mark); });
  memory_.Turn(actor_);
  memory_.Forget(actor_, thread.before);
  if (newest) {
    memory_.Note(actor_, 4);
    Block(Wait::spin, nullptr);
    memory_.Forget(actor_, thread.before);
  } else if (memory_.past(actor_) == thread.turn) {
    Leave(End::stutters);
  }
  thread.turn = memory_.past(actor_);
}

void Execution::EndAwait() { memory_.Turn(actor_); }

bool Execution::Free(void* memory) {
  if (!heap_.Contains(memory)) return false;
  if (phase_ == Phase::threads) Touch(memory, heap_.SizeOf(memory), Access::free);
  return true;
}

std::memory_order Execution::Weakened(const volatile void* address, Operation operation,
                                      std::memory_order order) const {
  const auto* const at = static_cast<const volatile std::byte*>(address);
  for (const auto& each : weakenings_) {
    const auto* const begin = static_cast<const volatile std::byte*>(each.begin);
    if (each.operation == operation && at >= begin && at < begin + each.bytes) return each.order;
  }
  return order;
}

bool Execution::Dropped(Primitive primitive) const {
  return std::find(options_->drop.begin(), options_->drop.end(), primitive) != options_->drop.end();
}

void Execution::Name(const volatile void* begin, std::size_t bytes, std::string name) {
  names_.push_back({static_cast<const volatile std::byte*>(begin), bytes, std::move(name)});
}

std::string Execution::NameOf(const volatile void* address) const {
  const auto* const at = static_cast<const volatile std::byte*>(address);
  for (const auto& named : names_) {
    if (at >= named.begin && at < named.begin + named.bytes) {
      return at == named.begin ? named.name : fmt::format("{}+{}", named.name, at - named.begin);
    }
  }
  return heap_.Contains(address) ? fmt::format("heap+{}", heap_.OffsetOf(address))
                                 : fmt::format("{:#x}", reinterpret_cast<std::uintptr_t>(address));
}

void Execution::Tell(const char* what, const volatile void* address, std::uint64_t value, std::memory_order order) {
  events_.push_back({actor_, what, address, value, order});
}

std::string Execution::Story() const {
  std::string story;
  for (const auto& event : events_) {
    story += fmt::format("  {:{}}{} {}", "", event.actor * 2, event.actor, event.what);
    if (event.address != nullptr) story += fmt::format(" {} {:#x}", NameOf(event.address), event.value);
    if (event.order != std::memory_order_relaxed) story += fmt::format(" {}", model::NameOf(event.order));
    story += '\n';
  }
  return story;
}

void Execution::Fail(const std::string& why) {
  inside_ = true;  // the message outlives the execution
  if (failure_.empty()) failure_ = fmt::format("thread {}: {}\n{}", actor_, why, Story());
  if (phase_ == Phase::end) throw std::runtime_error(failure_);
  ended_ = End::failed;
  _longjmp(main_, 1);
}

}  // namespace tutti::model
