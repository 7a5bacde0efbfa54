// The C boundary of the calls that make communicators.
#include <algorithm>
#include <optional>

#include "src/api/options.h"
#include "src/bootstrap/job_source.h"
#include "src/bootstrap/rendezvous.h"
#include "src/launch/joining.h"
#include "src/memory/device_buffers.h"

namespace tutti {
namespace {

tuttiResult_t JoinWith(tuttiComm_t* comm, const JoinTicket& ticket, int nranks, int rank, const Options& options) {
  return JoinInto(comm, rank, nranks, options, nullptr, [=](tuttiComm& handle) {
    return std::make_unique<Communicator>(ticket, nranks, rank, options, Cancellation(handle.cancel));
  });
}

tuttiResult_t JoinAs(tuttiComm_t* comm, const JoinTicket& ticket, int nranks, int rank, const tuttiConfig_t* config) {
  CheckOutput("comm", comm);
  if (nranks < 1) Throw(tuttiInvalidArgument, "nranks is {}; it must be at least 1", nranks);
  if (rank < 0 || rank >= nranks)
    Throw(tuttiInvalidArgument, "rank is {}; with {} ranks it must be 0 to {}", rank, nranks, nranks - 1);
  return JoinWith(comm, ticket, nranks, rank, OptionsOf(config));
}

// The excluded ranks, ascending.
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

}  // namespace
}  // namespace tutti

using namespace tutti;  // NOLINT: this file is the C boundary of that namespace

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
    const int devices = GlobalSettings().gpu ? CudaDevicesInUse() : 0;
    // Check everything before the group begins: an error must not leave the group open.
    std::vector<Options> options;
    for (int rank = 0; rank < ndev; ++rank) {
      tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
      if (devices > 0) config.device = devlist != nullptr ? devlist[rank] : rank % devices;
      options.push_back(OptionsOf(&config));
    }
    const auto ticket = OpenRendezvous(GlobalSettings());
    const auto mark = MarkGroup();
    StartGroup();
    try {
      for (int rank = 0; rank < ndev; ++rank) {
        JoinWith(&comms[rank], ticket, ndev, rank, options[static_cast<std::size_t>(rank)]);
      }
    } catch (...) {
      AbandonGroup(mark);
      throw;
    }
    return EndGroup();
  });
}

tuttiResult_t tuttiCommSplit(tuttiComm_t comm, int color, int key, tuttiComm_t* newcomm, tuttiConfig_t* config) {
  return GuardResult(comm, [&] {
    const Operating operating(comm);
    auto& handle = operating.handle();
    CheckOutput("newcomm", newcomm);
    if (color < 0 && color != TUTTI_SPLIT_NOCOLOR) {
      Throw(tuttiInvalidArgument, "color is {}; it must be at least 0, or TUTTI_SPLIT_NOCOLOR", color);
    }
    const auto options = OptionsOf(Usable(handle), config);
    const auto parent = handle.shared_from_this();
    const auto turn = std::make_shared<ControlTurn>(parent);
    const auto split = [=](const std::atomic<bool>& cancel) {
      const auto taken = turn->Take(&cancel);
      const std::lock_guard lock(*parent->communicator);
      return parent->communicator->Split(color, key, options, cancel);
    };
    if (color >= 0) {
      return JoinInto(newcomm, -1, 0, options, comm, [=](tuttiComm& child) { return split(child.cancel); });
    }
    Show(newcomm, nullptr);
    return TakePart(parent, [=] { split(parent->cancel); });
  });
}

tuttiResult_t tuttiCommShrink(tuttiComm_t comm, const int* excludeRanks, int excludeCount, tuttiComm_t* newcomm,
                              tuttiConfig_t* config) {
  return GuardResult(comm, [&] {
    const Operating operating(comm);
    auto& handle = operating.handle();
    auto& made = Made(handle);
    CheckOutput("newcomm", newcomm);
    const auto options = OptionsOf(made, config);
    const auto excluded = ExcludedRanks(made, excludeRanks, excludeCount);
    const auto parent = handle.shared_from_this();
    return JoinInto(newcomm, -1, 0, options, comm, [=](tuttiComm& child) {
      const std::lock_guard lock(*parent->communicator);
      return parent->communicator->Shrink(excluded, options, child.cancel);
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
    const Operating operating(comm);
    auto& handle = operating.handle();
    auto& usable = Usable(handle);
    if (nranks <= usable.size()) {
      Throw(tuttiInvalidArgument, "nranks is {}; it must be more than the {} ranks of comm", nranks, usable.size());
    }
    const auto given = id == nullptr ? std::nullopt : std::optional(*id);
    const auto options = OptionsOf(usable, config);
    const auto parent = handle.shared_from_this();
    const auto turn = std::make_shared<ControlTurn>(parent);
    return JoinInto(newcomm, -1, 0, options, comm, [=](tuttiComm& child) {
      const auto taken = turn->Take(&child.cancel);
      const std::lock_guard lock(*parent->communicator);
      return parent->communicator->Grow(nranks, given, options, child.cancel);
    });
  });
}
