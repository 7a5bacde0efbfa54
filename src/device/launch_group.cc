#include "src/device/launch_group.h"

#include <sched.h>

#include <algorithm>

#include "base/clocks/running_clock.h"
#include "base/threads/futex.h"
#include "base/threads/pause.h"
#include "src/device/message_blocks.h"
#include "transports/cuda/capture.h"

namespace tutti::device {
namespace {

using Clock = RunningClock;

// A rank whose calls came from the thread that now waits for it is unlikely to come; for this long, another thread may
// still bring it.
constexpr std::chrono::seconds kPatienceWithOwnThread{10};
constexpr std::chrono::milliseconds kWaitAtMost{20};
// A thread's wake-up takes longer (executors/host/drive.cc) than eight ranks' launch, so ranks that call at about the same
// time do not sleep, if each has a processor.
constexpr std::chrono::microseconds kSoon{100};
// After this, other threads may need the core.
constexpr std::chrono::microseconds kPausesFor{20};

// The messages of `part` that match `calls` of another rank.
const DeviceCalls* Counterpart(const DevicePart& part, int rank, const DeviceCalls& calls) {
  for (const auto& theirs : part.queues) {
    if (theirs.peer == rank && theirs.sends != calls.sends) return &theirs;
  }
  return nullptr;
}

}  // namespace

LaunchGroup::LaunchGroup(std::vector<int> members, std::shared_ptr<const cuda::KernelModule> kernels, bool spins)
    : members_(std::move(members)),
      kernels_(std::move(kernels)),
      device_(kernels_->device()),
      pinned_(device_),
      spins_(spins),
      all_launched_(device_.driver(), device_.context()) {}

// Ranks to launch now, together: they wait for each other and for no other rank of the launch group, or their calls are
// of one group. None if there are none.
std::vector<int> LaunchGroup::Ready() const {
  // The usual case: collectives, which need every rank.
  const bool only_collectives = std::all_of(deposits_.begin(), deposits_.end(), [](const auto& deposit) {
    const auto& queues = deposit.second.part->queues;
    return queues.size() == 1 && queues.front().peer < 0;
  });
  if (only_collectives) return deposits_.size() < members_.size() ? std::vector<int>() : members_;
  auto ready = AllReady();
  if (ready.empty()) return {};
  std::vector<int> together = {*ready.begin()};
  ready.erase(ready.begin());
  for (std::size_t i = 0; i < together.size(); ++i) {
    std::erase_if(ready, [&](int other) {
      const bool joins = AreTogether(together[i], other) || AreTogether(other, together[i]);
      if (joins) together.push_back(other);
      return joins;
    });
  }
  std::ranges::sort(together);
  return together;
}

// All parts of one launch end together. So a message to another GPU is not launched with those of other ranks that
// happen to call at the same time: they would wait for each other, which the caller never asked for. REQUIRES: both are
// deposited.
bool LaunchGroup::AreTogether(int rank, int other) const {
  const auto& [part, outcome, thread] = deposits_.at(rank);
  return outcome == deposits_.at(other).outcome || std::ranges::any_of(part->queues, [&](const DeviceCalls& calls) {
           return calls.peer < 0 || calls.peer == other;
         });
}

// The largest subset of the deposited ranks that can run without any other rank of the launch group.
std::set<int> LaunchGroup::AllReady() const {
  std::set<int> ready;
  for (const auto& [rank, deposit] : deposits_) ready.insert(rank);
  const auto lacks = [&](int rank) {
    for (const auto& calls : deposits_.at(rank).part->queues) {
      const auto waits_for = [&](int other) {
        return other != rank && std::find(members_.begin(), members_.end(), other) != members_.end();
      };
      if (calls.peer < 0) {
        for (const int other : members_) {
          if (!waits_for(other)) continue;
          if (ready.count(other) == 0 || Collectives(*deposits_.at(other).part) == nullptr) return true;
        }
      } else if (waits_for(calls.peer)) {
        const auto* theirs =
            ready.count(calls.peer) == 0 ? nullptr : Counterpart(*deposits_.at(calls.peer).part, rank, calls);
        if (theirs == nullptr || theirs->works.size() != calls.works.size()) return true;
      }
    }
    return false;
  };
  for (bool shrunk = true; shrunk;) {
    const auto lost = std::find_if(ready.begin(), ready.end(), lacks);
    shrunk = lost != ready.end();
    if (shrunk) ready.erase(lost);
  }
  return ready;
}

// Launches what the ranks have brought and settles the outcomes. REQUIRES: Ready() returned them.
void LaunchGroup::LaunchReady(const std::vector<int>& ranks) {
  const auto failure = LaunchTogether(ranks);
  for (const int rank : ranks) {
    const auto found = deposits_.find(rank);
    if (found == deposits_.end()) continue;  // withdrawn with another rank of its thread
    Outcome& outcome = *found->second.outcome;
    if (failure) {
      Withdraw(outcome);
      outcome.failure = failure;
    } else {
      if (!found->second.part->queues.empty()) continue;
      deposits_.erase(found);
      if (--outcome.left > 0) continue;
    }
    if (launcher_ == &outcome) launcher_ = nullptr;
    outcome.settled.store(true, std::memory_order_release);  // its thread may return now: the last access
  }
  // A sleeper counts itself before it looks for news, so one of the two sees the other.
  news_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) FutexWakeAll(news_);
}

void LaunchGroup::Withdraw(const Outcome& outcome) {
  if (launcher_ == &outcome) launcher_ = nullptr;
  std::erase_if(deposits_, [&](const auto& deposit) { return deposit.second.outcome == &outcome; });
}

std::optional<Error> LaunchGroup::LaunchTogether(const std::vector<int>& ranks) {
  // Ranks may bring the same collectives in groups of different length: runs as many as all have brought.
  std::size_t together = SIZE_MAX;
  for (const int rank : ranks) {
    const auto* collectives = Collectives(*deposits_.at(rank).part);
    if (collectives != nullptr) together = std::min(together, CollectivesOfOneLaunch(*collectives));
  }
  Bundle bundle;
  bundle.ranks = ranks;
  for (const int rank : ranks) {
    const auto& deposit = deposits_.at(rank);
    bundle.per_thread_elsewhere =
        bundle.per_thread_elsewhere ||
        (deposit.thread != std::this_thread::get_id() && deposit.part->HasStream(cuda_transport::kCuStreamPerThread));
    bundle.AddStream(deposit.part->stream);
  }
  for (const int rank : ranks) {
    const auto& part = *deposits_.at(rank).part;
    for (const auto stream : part.other_streams) bundle.AddStream(stream);
    bundle.plans.push_back(part.plans);
  }
  // Collectives first: their steps may name the buffers of other ranks, which are then easy to find.
  for (const bool collectives : {true, false}) {
    for (const int rank : ranks) bundle.Take(*deposits_.at(rank).part, collectives, together);
  }
  bundle.blocks =
      PlaceBlocks(bundle.queues, bundle.collective_queues, {bundle.message_blocks, kernels_->resident_blocks()});
  try {
    if (bundle.per_thread_elsewhere) {
      Throw(tuttiInvalidUsage,
            "ranks that share device {} are launched together by one of their threads, so cudaStreamPerThread means "
            "that thread's stream: pass each rank a stream that was created explicitly",
            device_.ordinal());
    }
    if (bundle.blocks > kernels_->resident_blocks()) {
      Throw(tuttiInvalidUsage,
            "these calls need {} thread blocks at the same time, but device {} holds {}: use fewer channels "
            "(TUTTI_CHANNELS), fewer ranks on one GPU, or fewer messages in one group",
            bundle.blocks, device_.ordinal(), kernels_->resident_blocks());
    }
    Enqueue(bundle);
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  }
}

const cuda_transport::CudaEvent& LaunchGroup::Launched(int rank) const {
  return apart_.contains(rank) ? own_launched_.at(rank) : all_launched_;
}

// A rank's operations on one communicator run in order, whatever their streams.
void LaunchGroup::Enqueue(Bundle& bundle) {
  const auto& driver = device_.driver();
  const cuda_transport::CurrentDevice current(driver, device_.context());
  const cuda_transport::CuStream leader = bundle.streams.front();
  const auto capture = cuda_transport::PlaceInCapture(driver, leader).capture;
  for (const auto stream : bundle.streams) {
    if (stream == leader || cuda_transport::PlaceInCapture(driver, stream).capture == capture) continue;
    Throw(
        tuttiInvalidUsage,
        "ranks that share device {} are launched together, but their streams are not captured into one graph: capture "
        "them in one thread, in one group, or not at all",
        device_.ordinal());
  }
  if (capture) return EnqueueCaptured(bundle, *capture);
  all_launched_.Block(leader);
  for (const int rank : apart_) {
    if (std::ranges::binary_search(bundle.ranks, rank)) Launched(rank).Block(leader);
  }
  while (arrived_.size() < bundle.streams.size()) arrived_.emplace_back(driver, device_.context());
  for (std::size_t s = 1; s < bundle.streams.size(); ++s) {
    arrived_[s].Record(bundle.streams[s]);
    arrived_[s].Block(leader);
  }
  LaunchBundle(bundle, false);
  const auto failure = EnqueueCopies(bundle);
  if (bundle.ranks.size() == members_.size()) {
    all_launched_.Record(leader);
    apart_.clear();
  } else {
    for (const int rank : bundle.ranks)
      own_launched_.try_emplace(rank, driver, device_.context()).first->second.Record(leader);
    apart_.insert(bundle.ranks.begin(), bundle.ranks.end());
  }
  const auto& launched = Launched(bundle.ranks.front());
  for (const auto stream : bundle.streams) {
    if (stream != leader) launched.Block(stream);
  }
  if (failure) throw *failure;
}

// Names the nodes of the graph that the launch comes after, each once, and puts all streams right behind it. Events
// would leave every earlier launch among the nodes that a stream's next work comes after: on an H100, a graph whose
// launches each have an edge from all earlier ones takes 2 us more for each (docs/notebook/performance/shared_gpu.md).
// The user orders a graph against everything else.
void LaunchGroup::EnqueueCaptured(Bundle& bundle, std::uint64_t capture) {
  const auto& driver = device_.driver();
  const cuda_transport::CuStream leader = bundle.streams.front();
  std::set<cuda_transport::CuGraphNode> before;
  for (const auto stream : bundle.streams) {
    const auto place = cuda_transport::PlaceInCapture(driver, stream);
    before.insert(place.nodes.begin(), place.nodes.end());
  }
  for (const int rank : bundle.ranks) {
    const auto last = captured_.find(rank);
    if (last != captured_.end() && last->second.capture == capture) before.insert(last->second.node);
  }
  if (before.size() != cuda_transport::PlaceInCapture(driver, leader).nodes.size())
    cuda_transport::PlaceAfter(driver, leader, {before.begin(), before.end()});
  LaunchBundle(bundle, true);
  const auto failure = EnqueueCopies(bundle);
  const auto launched = cuda_transport::PlaceInCapture(driver, leader).nodes;
  for (const auto stream : bundle.streams) {
    if (stream != leader) cuda_transport::PlaceAfter(driver, stream, launched);
  }
  for (const int rank : bundle.ranks) captured_[rank] = {capture, launched.front()};
  if (failure) throw *failure;
}

void LaunchGroup::LaunchBundle(Bundle& bundle, bool captured) {
  const cuda_transport::CuStream leader = bundle.streams.front();
  for (auto* const plans : bundle.plans) plans->Precede(leader, captured);
  std::vector<cuda_transport::StreamMemory> copies;  // freed behind the launch
  for (std::size_t w = 0; w < bundle.works.size(); ++w) {
    if (bundle.copied[w] == 0) continue;
    auto& input = bundle.works[w].input;
    input = copies.emplace_back(device_.driver(), input, bundle.copied[w], leader).data();
  }
  const cuda_kernels::DeviceLaunch launch = pinned_.Write(bundle.queues, bundle.works, bundle.collective_queues);
  kernels_->Launch(launch, bundle.blocks, bundle.threads, leader);
  pinned_.Enqueued(leader, captured);
}

// Behind the launch. The failure if one is refused: the launch itself still has to be accounted for.
std::optional<Error> LaunchGroup::EnqueueCopies(const Bundle& bundle) const {
  try {
    for (const auto& [to, from, bytes] : bundle.followed_by) {
      cuda_transport::EnqueueCopy(device_.driver(), to, from, bytes, bundle.streams.front());
    }
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  }
}

std::optional<Error> LaunchGroup::Missing(int rank, Clock::duration waited, std::chrono::milliseconds timeout) const {
  for (const int other : members_) {
    if (deposits_.count(other) != 0) continue;
    const auto last = last_thread_.find(other);
    const bool own_thread = last != last_thread_.end() && last->second == std::this_thread::get_id();
    if (waited < (own_thread ? std::min<Clock::duration>(kPatienceWithOwnThread, timeout) : timeout)) continue;
    return Error{own_thread ? tuttiInvalidUsage : tuttiTimeoutError,
                 fmt::format("rank {} waited {} ms for rank {}, which shares its process and device {}, to make its "
                             "call; if one thread makes calls for several ranks, put them in one group",
                             rank, std::chrono::duration_cast<std::chrono::milliseconds>(waited).count(), other,
                             device_.ordinal())};
  }
  return std::nullopt;
}

// Whether done() becomes true within kSoon. A thread without a processor of its own only keeps others from theirs.
template <typename Done>
bool LaunchGroup::ComesSoon(Done&& done) const {
  const auto begun = Clock::now();
  while (!done()) {
    const auto waited = Clock::now() - begun;
    if (!spins_ || waited > kSoon) return false;
    if (waited > kPausesFor) {
      sched_yield();
    } else {
      Pause();
    }
  }
  return true;
}

// The others hold the lock for some microseconds, less than a sleep and a wake-up take.
void LaunchGroup::AwaitTurn() {
  if (!ComesSoon([&] { return mutex_.try_lock(); })) mutex_.lock();
}

void LaunchGroup::LaunchAllReady() {
  for (auto ready = Ready(); !ready.empty(); ready = Ready()) LaunchReady(ready);
}

std::optional<Error> LaunchGroup::Launch(std::vector<DevicePart> parts, std::chrono::milliseconds timeout,
                                         const Check& check) {
  Outcome outcome{.left = parts.size(), .failure = {}};
  const int first = parts.front().rank;
  bool launches = false;
  AwaitTurn();
  std::unique_lock lock(mutex_, std::adopt_lock);
  for (auto& part : parts) {
    const int rank = part.rank;
    launches = launches || (spins_ && rank == members_.front());
    last_thread_[rank] = std::this_thread::get_id();
    deposits_[rank] = {&part, &outcome, std::this_thread::get_id()};
  }
  // The first rank's thread launches for all, because the driver's state is then in its core's caches: beside an H100, a
  // launch for eight threads takes 14 us in the first one, and 17 us in the last (scripts/gpu_kit/limits.cu). But to wake
  // it takes longer.
  if (launcher_ == nullptr) {
    LaunchAllReady();
  } else if (!Ready().empty()) {
    launcher_->called.store(true, std::memory_order_release);
  }
  const auto settled = [&] { return outcome.settled.load(std::memory_order_acquire); };
  if (launches && !settled()) launcher_ = &outcome;
  lock.unlock();

  const auto started = Clock::now();
  const bool soon = ComesSoon([&] {
    if (outcome.called.load(std::memory_order_acquire)) {
      const std::lock_guard turn(mutex_);
      outcome.called.store(false, std::memory_order_relaxed);
      LaunchAllReady();
    }
    return settled();
  });
  if (soon) return std::move(outcome.failure);
  if (launches) {
    const std::lock_guard turn(mutex_);
    if (launcher_ == &outcome) {
      launcher_ = nullptr;  // the last rank's thread launches instead
      LaunchAllReady();
    }
  }
  auto checked = started;
  for (Lookout lookout; !settled();) {
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    const auto news = news_.load(std::memory_order_seq_cst);
    if (!settled()) FutexWait(news_, news, kWaitAtMost);
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
    const auto now = lookout.Look();
    // By the clock: other ranks' launches may wake this thread more often.
    if (now - checked < kWaitAtMost) continue;
    checked = now;
    auto reason = check();
    const std::lock_guard turn(mutex_);
    if (settled()) break;
    if (!reason) reason = Missing(first, now - started, timeout);
    if (!reason) continue;
    Withdraw(outcome);
    return reason;
  }
  return std::move(outcome.failure);
}

bool LaunchGroup::AwaitIdle(int rank, std::chrono::milliseconds most) {
  const auto deadline = Clock::now() + most;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (Launched(rank).Passed()) return true;
    }
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

}  // namespace tutti::device
