#include "src/device/launch_group.h"

#include <algorithm>
#include <set>

namespace tutti::device {
namespace {

using Clock = std::chrono::steady_clock;

// A rank whose calls came from the thread that now waits for it is unlikely to come; for this long, another thread may
// still bring it.
constexpr std::chrono::seconds kPatienceWithOwnThread{10};
constexpr std::chrono::milliseconds kLookEvery{20};

std::uint32_t MostBlocks(const DeviceCalls& calls, std::size_t works) {
  std::uint32_t most = 0;
  for (std::size_t w = 0; w < works; ++w) most = std::max(most, calls.blocks[w]);
  return most;
}

const DeviceCalls* Collectives(const DevicePart& part) {
  for (const auto& calls : part.queues) {
    if (calls.peer < 0) return &calls;
  }
  return nullptr;
}

// How many of the collectives one launch may run. One whose steps name other ranks' buffers runs alone: the ends of
// launches order it among the others, on all ranks.
std::size_t CollectivesOfOneLaunch(const DeviceCalls& calls) {
  const auto first_alone = std::find(calls.alone.begin(), calls.alone.end(), true) - calls.alone.begin();
  return std::max<std::size_t>(1, static_cast<std::size_t>(first_alone));
}

// The messages of `part` that match `calls` of another rank.
const DeviceCalls* Counterpart(const DevicePart& part, int rank, const DeviceCalls& calls) {
  for (const auto& theirs : part.queues) {
    if (theirs.peer == rank && theirs.sends != calls.sends) return &theirs;
  }
  return nullptr;
}

}  // namespace

// The inputs of one launch.
struct LaunchGroup::Bundle {
  std::vector<cuda_kernels::DeviceWorkQueue> queues;
  std::vector<cuda_kernels::DeviceWork> works;
  std::vector<cuda_transport::CuStream> streams;  // the first is the launch stream
  std::vector<cuda_transport::DeviceArena*> plans;
  std::uint32_t blocks = 0;
  std::uint32_t threads = 0;
  bool per_thread_elsewhere = false;  // one of them is another thread's own default stream

  void AddStream(cuda_transport::CuStream stream) {
    if (std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
  }
  // Takes the part's first `together` collectives, or all of its messages.
  void Take(DevicePart& part, bool collectives, std::size_t together) {
    for (auto& calls : part.queues) {
      if ((calls.peer < 0) != collectives) continue;
      const std::size_t taken = collectives ? std::min(together, calls.works.size()) : calls.works.size();
      const std::uint32_t most = MostBlocks(calls, taken);
      queues.push_back({calls.rank, calls.queue, calls.lanes, blocks, most, static_cast<std::uint32_t>(works.size()),
                        static_cast<std::uint32_t>(taken)});
      blocks += most;
      threads = std::max(threads, calls.threads);
      const auto count = static_cast<std::ptrdiff_t>(taken);
      works.insert(works.end(), calls.works.begin(), calls.works.begin() + count);
      calls.works.erase(calls.works.begin(), calls.works.begin() + count);
      calls.blocks.erase(calls.blocks.begin(), calls.blocks.begin() + count);
      calls.alone.erase(calls.alone.begin(), calls.alone.begin() + count);
    }
    std::erase_if(part.queues, [](const DeviceCalls& calls) { return calls.works.empty(); });
  }
};

LaunchGroup::LaunchGroup(std::vector<int> members, std::shared_ptr<const cuda::KernelModule> kernels)
    : members_(std::move(members)),
      kernels_(std::move(kernels)),
      device_(kernels_->device()),
      pinned_(device_),
      arrived_(device_.driver(), device_.context()),
      launched_(device_.driver(), device_.context()),
      captured_(device_.driver(), device_.context()) {}

// The largest subset of the deposited ranks that can run without any other rank of the launch group.
std::vector<int> LaunchGroup::Ready() const {
  std::set<int> ready;
  for (const auto& [rank, deposit] : deposits_) ready.insert(rank);
  const auto lacks = [&](int rank) {
    for (const auto& calls : deposits_.at(rank).part.queues) {
      const auto waits_for = [&](int other) {
        return other != rank && std::find(members_.begin(), members_.end(), other) != members_.end();
      };
      if (calls.peer < 0) {
        for (const int other : members_) {
          if (!waits_for(other)) continue;
          if (ready.count(other) == 0 || Collectives(deposits_.at(other).part) == nullptr) return true;
        }
      } else if (waits_for(calls.peer)) {
        const auto* theirs =
            ready.count(calls.peer) == 0 ? nullptr : Counterpart(deposits_.at(calls.peer).part, rank, calls);
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
  return {ready.begin(), ready.end()};
}

std::optional<Error> LaunchGroup::LaunchReady(const std::vector<int>& ranks) {
  // Ranks may bring the same collectives in groups of different length: runs as many as all have brought.
  std::size_t together = SIZE_MAX;
  for (const int rank : ranks) {
    const auto* collectives = Collectives(deposits_.at(rank).part);
    if (collectives != nullptr) together = std::min(together, CollectivesOfOneLaunch(*collectives));
  }
  Bundle bundle;
  for (const int rank : ranks) {
    const auto& deposit = deposits_.at(rank);
    bundle.per_thread_elsewhere =
        bundle.per_thread_elsewhere ||
        (deposit.thread != std::this_thread::get_id() && deposit.part.HasStream(cuda_transport::kCuStreamPerThread));
    bundle.AddStream(deposit.part.stream);
  }
  for (const int rank : ranks) {
    const auto& part = deposits_.at(rank).part;
    for (const auto stream : part.other_streams) bundle.AddStream(stream);
    bundle.plans.push_back(part.plans);
  }
  // Collectives first: their steps may name the buffers of other ranks, which are then easy to find.
  for (const bool collectives : {true, false}) {
    for (const int rank : ranks) bundle.Take(deposits_.at(rank).part, collectives, together);
  }
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

void LaunchGroup::Enqueue(const Bundle& bundle) {
  const auto& driver = device_.driver();
  const cuda_transport::CurrentDevice current(driver, device_.context());
  const auto capture_of = [&](cuda_transport::CuStream stream) {
    int status = 0;
    std::uint64_t id = 0;
    const auto result = driver.cuStreamGetCaptureInfo(stream, &status, &id, nullptr, nullptr, nullptr);
    if (result == cuda_transport::kCuErrorInvalidHandle) {
      Throw(tuttiInvalidArgument, "stream {} is not a CUDA stream; was it destroyed?", static_cast<void*>(stream));
    }
    driver.Check(result, "cuStreamGetCaptureInfo");
    return status == cuda_transport::kCuCaptureActive ? std::optional(id) : std::nullopt;
  };
  const cuda_transport::CuStream leader = bundle.streams.front();
  const auto capture = capture_of(leader);
  for (const auto stream : bundle.streams) {
    if (capture_of(stream) == capture) continue;
    Throw(
        tuttiInvalidUsage,
        "ranks that share device {} are launched together, but their streams are not captured into one graph: capture "
        "them in one thread, in one group, or not at all",
        device_.ordinal());
  }
  // Operations of one communicator run in order, whatever the streams, also in a graph that forks. The user orders a
  // graph against everything else.
  if (!capture) {
    launched_.Block(leader);
  } else if (last_capture_ == capture) {
    captured_.Block(leader);
  }
  for (const auto stream : bundle.streams) {
    if (stream == leader) continue;
    arrived_.Record(stream);
    arrived_.Block(leader);
  }
  for (auto* const plans : bundle.plans) plans->Precede(leader, capture.has_value());
  const cuda_kernels::DeviceLaunch launch = pinned_.Write(bundle.queues, bundle.works);
  kernels_->Launch(launch, bundle.blocks, bundle.threads, leader);
  pinned_.Enqueued(leader, capture.has_value());
  // In a graph the event belongs to the graph; launched_ must remain an event that can be waited for outside.
  cuda_transport::CudaEvent& after = capture ? captured_ : launched_;
  after.Record(leader);
  for (const auto stream : bundle.streams) {
    if (stream != leader) after.Block(stream);
  }
  if (capture) last_capture_ = capture;
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

std::optional<Error> LaunchGroup::Launch(std::vector<DevicePart> parts, std::chrono::milliseconds timeout,
                                         const Check& check) {
  std::unique_lock lock(mutex_);
  std::vector<int> ranks;
  const auto ticket = next_ticket_++;
  for (auto& part : parts) {
    ranks.push_back(part.rank);
    last_thread_[part.rank] = std::this_thread::get_id();
    deposits_[part.rank] = {std::move(part), ticket, std::this_thread::get_id()};
  }
  const auto launched = [&] {
    return failures_.count(ticket) != 0 || std::none_of(ranks.begin(), ranks.end(), [&](int rank) {
             const auto found = deposits_.find(rank);
             return found != deposits_.end() && found->second.ticket == ticket;
           });
  };
  const auto give_up = [&](const Error& error) {
    for (const int rank : ranks) deposits_.erase(rank);
    changed_.notify_all();
    return error;
  };
  const auto started = Clock::now();
  while (!launched()) {
    const auto ready = Ready();
    if (!ready.empty()) {
      const auto failure = LaunchReady(ready);
      for (const int rank : ready) {
        const auto& deposit = deposits_.at(rank);
        if (failure) failures_.emplace(deposit.ticket, *failure);
        if (failure || deposit.part.queues.empty()) deposits_.erase(rank);
      }
      changed_.notify_all();
      continue;
    }
    if (changed_.wait_for(lock, kLookEvery) == std::cv_status::no_timeout) continue;
    lock.unlock();
    const auto reason = check();
    lock.lock();
    if (launched()) break;
    if (reason) return give_up(*reason);
    if (const auto missing = Missing(ranks.front(), Clock::now() - started, timeout)) return give_up(*missing);
  }
  const auto failed = failures_.find(ticket);
  if (failed == failures_.end()) return std::nullopt;
  const Error error = failed->second;
  failures_.erase(failed);
  return error;
}

bool LaunchGroup::AwaitIdle(std::chrono::milliseconds most) {
  const auto deadline = Clock::now() + most;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (launched_.Passed()) return true;
    }
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

}  // namespace tutti::device
