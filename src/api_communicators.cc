// The C boundary of communicators and of everything that is asked of them rather than done.
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "algorithms/build.h"
#include "base/datatype.h"
#include "src/bootstrap/job_source.h"
#include "src/bootstrap/rendezvous.h"
#include "src/device_buffers.h"
#include "src/group.h"

namespace tutti {
namespace {

constexpr int kMaxChannelsOrThreads = 16;

void TakeNumber(const char* name, int value, int low, int high, int& field) {
  if (value == TUTTI_CONFIG_UNDEF_INT) return;
  if (value < low || value > high)
    Throw(tuttiInvalidArgument, "config.{} is {}; it takes {} to {}", name, value, low, high);
  field = value;
}

// `base` with the config's fields over it. The config may be older (shorter) or newer (longer) than this library's.
Options WithConfig(Options options, const tuttiConfig_t* given) {
  if (given == nullptr) return options;
  constexpr auto kHeader = offsetof(tuttiConfig_t, blocking);
  if (given->magic != TUTTI_CONFIG_MAGIC || given->size < kHeader) {
    Throw(tuttiInvalidArgument, "config was not initialised with TUTTI_CONFIG_INITIALIZER");
  }
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  std::memcpy(&config, given, std::min(given->size, sizeof config));
  auto& settings = options.settings;
  int blocking = options.blocking ? 1 : 0, deterministic = settings.deterministic ? 1 : 0;
  TakeNumber("blocking", config.blocking, 0, 1, blocking);
  TakeNumber("channels", config.channels, 1, kMaxChannelsOrThreads, settings.channels);
  TakeNumber("threads", config.threads, 1, kMaxChannelsOrThreads, settings.threads);
  TakeNumber("deterministic", config.deterministic, 0, 1, deterministic);
  TakeNumber("initTimeoutMs", config.initTimeoutMs, 1, INT32_MAX, settings.init_timeout_ms);
  TakeNumber("operationTimeoutMs", config.operationTimeoutMs, 1, INT32_MAX, settings.operation_timeout_ms);
  TakeNumber("device", config.device, TUTTI_DEVICE_NONE, INT32_MAX, options.device);
  options.blocking = blocking != 0;
  settings.deterministic = deterministic != 0;
  if (config.algorithm != nullptr) settings.algorithm = config.algorithm;
  if (config.name != nullptr) options.name = config.name;
  return options;
}

Options DefaultOptions() {
  const auto& settings = GlobalSettings();
  return {settings, "", true, settings.gpu ? CurrentCudaDevice() : TUTTI_DEVICE_NONE};
}

// Makes the handle, then the communicator in it by `make`, here or in the background. *out is set at once, and to null
// again if a blocking join fails.
tuttiResult_t JoinInto(tuttiComm_t* out, int rank, int nranks, const Options& options,
                       std::function<std::unique_ptr<Communicator>(tuttiComm&)> make) {
  auto* const handle = NewHandle();
  handle->rank = rank;
  handle->nranks = nranks;
  handle->blocking = options.blocking;
  if (!options.blocking) handle->background = std::make_unique<Stream>();
  *out = handle;
  return SubmitJoin(handle, [=] {
    const auto result = Guard(handle, [&] {
      handle->communicator = make(*handle);
      handle->communicator->UseLock(handle->busy);
      handle->rank = handle->communicator->rank();
      handle->nranks = handle->communicator->size();
    });
    if (result != tuttiSuccess && handle->blocking) {
      *out = nullptr;
      RetireHandle(handle);
      return result;
    }
    {
      const std::lock_guard lock(handle->mutex);
      handle->first_failure = result;
    }
    handle->life.store(tuttiComm::Life::ready, std::memory_order_release);
    return result;
  });
}

tuttiResult_t JoinAs(tuttiComm_t* comm, const JoinTicket& ticket, int nranks, int rank, const tuttiConfig_t* config) {
  CheckOutput("comm", comm);
  if (nranks < 1) Throw(tuttiInvalidArgument, "nranks is {}; it must be at least 1", nranks);
  if (rank < 0 || rank >= nranks)
    Throw(tuttiInvalidArgument, "rank is {}; with {} ranks it must be 0 to {}", rank, nranks, nranks - 1);
  const auto options = WithConfig(DefaultOptions(), config);
  return JoinInto(comm, rank, nranks, options, [=](tuttiComm& handle) {
    return std::make_unique<Communicator>(ticket, nranks, rank, options, Cancellation(handle.cancel));
  });
}

// What a communicator that comes of `parent` has where its config says nothing.
Options Inherited(const Communicator& parent) {
  auto options = parent.options();
  options.name.clear();
  return options;
}

// Ascending.
std::vector<int> ExcludedRanks(const Communicator& comm, const int* ranks, int count) {
  if (count < 0 || count >= comm.size()) {
    Throw(tuttiInvalidArgument, "excludeCount is {}; with {} ranks it takes 0 to {}", count, comm.size(),
          comm.size() - 1);
  }
  if (count > 0 && ranks == nullptr) Throw(tuttiInvalidArgument, "excludeRanks is NULL, excludeCount {}", count);
  std::vector<int> excluded(ranks, ranks + count);
  for (int i = 0; i < count; ++i) {
    if (ranks[i] < 0 || ranks[i] >= comm.size()) {
      Throw(tuttiInvalidArgument, "excludeRanks[{}] is {}; comm has ranks 0 to {}", i, ranks[i], comm.size() - 1);
    }
    if (ranks[i] == comm.rank()) {
      Throw(tuttiInvalidUsage, "rank {} is in excludeRanks; only ranks that stay call tuttiCommShrink", comm.rank());
    }
  }
  std::ranges::sort(excluded);
  excluded.erase(std::unique(excluded.begin(), excluded.end()), excluded.end());
  return excluded;
}

void AwaitPending(const tuttiComm& handle) {
  // Acquire: what the streams' tasks did is done.
  while (handle.pending.load(std::memory_order_acquire) > 0) sched_yield();
}

// For an abort: afterwards nobody else uses the communicator or begins to. See Hold for the order.
void AwaitHolds(const tuttiComm& handle) {
  while (handle.holds.load(std::memory_order_seq_cst) > 0) sched_yield();
}

}  // namespace
}  // namespace tutti

using namespace tutti;  // NOLINT: this file is the C boundary of that namespace

tuttiResult_t tuttiGetVersion(int* version) {
  return Guard(nullptr, [&] {
    CheckOutput("version", version);
    *version = TUTTI_VERSION_CODE;
  });
}

const char* tuttiGetErrorString(tuttiResult_t result) { return ResultPhrase(result); }

const char* tuttiGetLastError(tuttiComm_t comm) { return LastError(comm); }

tuttiResult_t tuttiGetUniqueId(tuttiUniqueId* id) {
  return Guard(nullptr, [&] {
    CheckOutput("uniqueId", id);
    const auto& settings = GlobalSettings();
    *id = EncodeUniqueId(settings.comm_id.empty() ? OpenRendezvous(settings)
                                                  : TicketFromCommId(settings, ProcessEnvironment()));
  });
}

tuttiResult_t tuttiCommInitRank(tuttiComm_t* comm, int nranks, tuttiUniqueId id, int rank) {
  return tuttiCommInitRankConfig(comm, nranks, id, rank, nullptr);
}

tuttiResult_t tuttiCommInitRankConfig(tuttiComm_t* comm, int nranks, tuttiUniqueId id, int rank,
                                      tuttiConfig_t* config) {
  return GuardResult(nullptr, [&] { return JoinAs(comm, DecodeUniqueId(id), nranks, rank, config); });
}

tuttiResult_t tuttiCommInitEnv(tuttiComm_t* comm, tuttiConfig_t* config) {
  return GuardResult(nullptr, [&] {
    const auto where = TicketFromEnvironment(GlobalSettings(), ProcessEnvironment());
    return JoinAs(comm, where.ticket, where.nranks, where.rank, config);
  });
}

tuttiResult_t tuttiCommInitAll(tuttiComm_t* comms, int ndev, const int* devlist) {
  return GuardResult(nullptr, [&] {
    CheckOutput("comms", comms);
    if (ndev < 1) Throw(tuttiInvalidArgument, "ndev is {}; it must be at least 1", ndev);
    const auto ticket = OpenRendezvous(GlobalSettings());
    const int devices = GlobalSettings().gpu ? CudaDevicesInUse() : 0;
    StartGroup();
    for (int rank = 0; rank < ndev; ++rank) {
      tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
      if (devices > 0) config.device = devlist != nullptr ? devlist[rank] : rank % devices;
      JoinAs(&comms[rank], ticket, ndev, rank, &config);
    }
    return EndGroup();
  });
}

tuttiResult_t tuttiCommSplit(tuttiComm_t comm, int color, int key, tuttiComm_t* newcomm, tuttiConfig_t* config) {
  return GuardResult(comm, [&] {
    const Hold hold(Ready(comm));
    auto& parent = Usable(comm);
    CheckOutput("newcomm", newcomm);
    if (color < 0 && color != TUTTI_SPLIT_NOCOLOR) {
      Throw(tuttiInvalidArgument, "color is {}; it must be at least 0, or TUTTI_SPLIT_NOCOLOR", color);
    }
    const auto options = WithConfig(Inherited(parent), config);
    if (color < 0) {
      *newcomm = nullptr;
      return SubmitJoin(comm, [=, &parent] {
        return Guard(comm, [&] {
          const Hold hold(*comm);
          const std::lock_guard lock(parent);
          parent.Split(color, key, options, comm->cancel);
        });
      });
    }
    return JoinInto(newcomm, -1, 0, options, [=, &parent](tuttiComm& handle) {
      const Hold hold(*comm);
      const std::lock_guard lock(parent);
      return parent.Split(color, key, options, handle.cancel);
    });
  });
}

tuttiResult_t tuttiCommShrink(tuttiComm_t comm, const int* excludeRanks, int excludeCount, tuttiComm_t* newcomm,
                              tuttiConfig_t* config) {
  return GuardResult(comm, [&] {
    const Hold hold(Ready(comm));
    auto& parent = Made(comm);
    CheckOutput("newcomm", newcomm);
    const auto options = WithConfig(Inherited(parent), config);
    return JoinInto(newcomm, -1, 0, options,
                    [=, &parent, excluded = ExcludedRanks(parent, excludeRanks, excludeCount)](tuttiComm& handle) {
                      const Hold hold(*comm);
                      const std::lock_guard lock(parent);
                      return parent.Shrink(excluded, options, handle.cancel);
                    });
  });
}

tuttiResult_t tuttiCommGrow(tuttiComm_t comm, int nranks, const tuttiUniqueId* id, int rank, tuttiComm_t* newcomm,
                            tuttiConfig_t* config) {
  return GuardResult(comm, [&] {
    CheckOutput("newcomm", newcomm);
    if (comm == nullptr) {
      if (id == nullptr) Throw(tuttiInvalidArgument, "id is NULL; a new rank comes by the id that comm's ranks gave");
      return JoinAs(newcomm, DecodeUniqueId(*id), nranks, rank, config);
    }
    const Hold hold(Ready(comm));
    auto& parent = Usable(comm);
    if (nranks <= parent.size()) {
      Throw(tuttiInvalidArgument, "nranks is {}; it must be more than the {} ranks of comm", nranks, parent.size());
    }
    const auto given = id == nullptr ? std::nullopt : std::optional(*id);
    const auto options = WithConfig(Inherited(parent), config);
    return JoinInto(newcomm, -1, 0, options, [=, &parent](tuttiComm& handle) {
      const Hold hold(*comm);
      const std::lock_guard lock(parent);
      return parent.Grow(nranks, given, options, handle.cancel);
    });
  });
}

tuttiResult_t tuttiCommRevoke(tuttiComm_t comm) {
  return Guard(comm, [&] {
    const Hold hold(Ready(comm));
    Made(comm).Revoke();
  });
}

tuttiResult_t tuttiCommFinalize(tuttiComm_t comm) {
  return Guard(comm, [&] {
    auto& handle = Checked(comm);
    AwaitPending(handle);
    if (handle.communicator != nullptr) handle.communicator->AwaitDevice();
    handle.life.store(tuttiComm::Life::finalized, std::memory_order_release);
  });
}

tuttiResult_t tuttiCommDestroy(tuttiComm_t comm) {
  return Guard(comm, [&] {
    auto& handle = Checked(comm);
    AwaitPending(handle);
    if (handle.communicator != nullptr) handle.communicator->AwaitDevice();
    RetireHandle(comm);
  });
}

tuttiResult_t tuttiCommAbort(tuttiComm_t comm) {
  return Guard(comm, [&] {
    auto& handle = Checked(comm);
    handle.cancel.store(true, std::memory_order_seq_cst);
    const bool joined = handle.life.load(std::memory_order_acquire) != tuttiComm::Life::joining;
    if (joined && handle.communicator != nullptr) handle.communicator->Abort();
    AwaitHolds(handle);
    AwaitPending(handle);
    // Whoever is inside a call leaves it first; who waits for the lock finds the handle retired.
    const std::lock_guard lock(handle);
    RetireHandle(comm);
  });
}

tuttiResult_t tuttiCommGetAsyncError(tuttiComm_t comm, tuttiResult_t* asyncError) {
  return Guard(comm, [&] {
    auto& handle = Checked(comm);
    CheckOutput("asyncError", asyncError);
    const Hold hold(handle);
    const bool joining = handle.life.load(std::memory_order_acquire) == tuttiComm::Life::joining;
    const bool there = !joining && handle.communicator != nullptr;
    if (there) handle.communicator->AwaitDeviceFault();
    if (there && handle.communicator->failed()) {
      *asyncError = handle.communicator->failure()->code();
      return;
    }
    const bool busy = !handle.blocking && handle.pending.load(std::memory_order_acquire) > 0;
    const std::lock_guard lock(handle.mutex);
    *asyncError = joining || busy ? tuttiInProgress : handle.first_failure;
  });
}

tuttiResult_t tuttiCommCount(const tuttiComm_t comm, int* count) {
  return Guard(comm, [&] {
    Checked(comm);
    CheckOutput("count", count);
    *count = comm->nranks;
  });
}

tuttiResult_t tuttiCommUserRank(const tuttiComm_t comm, int* rank) {
  return Guard(comm, [&] {
    Checked(comm);
    CheckOutput("rank", rank);
    *rank = comm->rank;
  });
}

tuttiResult_t tuttiCommCuDevice(const tuttiComm_t comm, int* device) {
  return Guard(comm, [&] {
    Checked(comm);
    CheckOutput("device", device);
    const Hold hold(*comm);
    const auto* const side = Made(comm).device();
    *device = side == nullptr ? TUTTI_DEVICE_NONE : side->device().ordinal();
  });
}

tuttiResult_t tuttiCommGetCounters(tuttiComm_t comm, tuttiCounters_t* counters) {
  return Guard(comm, [&] {
    const Hold hold(Checked(comm));
    auto& communicator = Made(comm);
    CheckOutput("counters", counters);
    if (counters->size < sizeof(size_t)) {
      Throw(tuttiInvalidArgument, "counters->size is {}; set it to sizeof(tuttiCounters_t)", counters->size);
    }
    const std::lock_guard lock(communicator);
    communicator.ReadCounters(*counters);
  });
}

tuttiResult_t tuttiCommDescribeLastOperation(tuttiComm_t comm, char* text, size_t size) {
  return Guard(comm, [&] {
    const Hold hold(Checked(comm));
    auto& communicator = Made(comm);
    CheckOutput("text", text);
    if (size == 0) Throw(tuttiInvalidArgument, "size is 0");
    const auto description = [&] {
      const std::lock_guard lock(communicator);
      return communicator.DescribeLast();
    }();
    const auto length = std::min(size - 1, description.size());
    std::memcpy(text, description.data(), length);
    text[length] = '\0';
  });
}

tuttiResult_t tuttiCommDump(tuttiComm_t comm, const char* path) {
  return Guard(comm, [&] {
    const Hold hold(Checked(comm));
    const auto& communicator = Made(comm);
    CheckOutput("path", path);
    communicator.WriteDump(path);
  });
}

const char* tuttiAlgorithmName(tuttiAlgorithm_t algorithm) { return NameOf(algorithm).data(); }

tuttiResult_t tuttiCommGetLastAlgorithm(tuttiComm_t comm, tuttiAlgorithm_t* algorithm) {
  return Guard(comm, [&] {
    const Hold hold(Checked(comm));
    auto& communicator = Made(comm);
    CheckOutput("algorithm", algorithm);
    *algorithm = communicator.last_algorithm();
  });
}
