// The C boundary of the calls that make communicators.
#include "src/calls/joining.h"

#include <algorithm>
#include <optional>

#include "src/api/options.h"
#include "src/bootstrap/job_secret.h"
#include "src/bootstrap/job_source.h"
#include "src/bootstrap/rendezvous/rendezvous.h"
#include "src/memory/device_buffers.h"
#include "tutti/extension.h"

namespace tutti::api {
namespace {

// A number that tells rendezvous apart.
std::uint64_t IdOf(const bootstrap::JoinTicket& ticket) {
  std::uint64_t hash = 0;
  for (const auto each : ticket.job) hash = ring::Mix(hash ^ static_cast<std::uint64_t>(each));
  return hash;
}

tuttiResult_t JoinWith(tuttiComm_t* comm, const bootstrap::JoinTicket& ticket, int nranks, int rank,
                       comm::Options options) {
  options.id = IdOf(ticket);
  return calls::JoinInto(comm, rank, nranks, options, nullptr, [=](tuttiComm& handle) {
    const Cancellation cancel(handle.cancel);
    return std::make_unique<comm::Communicator>(comm::Communicator::At(ticket, nranks, rank, cancel), options, cancel);
  });
}

tuttiResult_t JoinAs(tuttiComm_t* comm, const bootstrap::JoinTicket& ticket, int nranks, int rank,
                     const tuttiConfig_t* config) {
  calls::CheckOutput("comm", comm);
  if (nranks < 1) Throw(tuttiInvalidArgument, "nranks is {}; it must be at least 1", nranks);
  if (rank < 0 || rank >= nranks)
    Throw(tuttiInvalidArgument, "rank is {}; with {} ranks it must be 0 to {}", rank, nranks, nranks - 1);
  return JoinWith(comm, ticket, nranks, rank, OptionsOf(config));
}

// The excluded ranks, ascending.
std::vector<int> ExcludedRanks(const comm::Communicator& comm, const int* ranks, int count) {
  if (count < 0 || count >= comm.size()) {
    Throw(tuttiInvalidArgument, "excludeCount is {}; with {} ranks it must be 0 to {}", count, comm.size(),
          comm.size() - 1);
  }
  if (count > 0 && ranks == nullptr) Throw(tuttiInvalidArgument, "excludeRanks is NULL, but excludeCount is {}", count);
  std::vector<int> excluded(ranks, ranks + count);
  for (int i = 0; i < count; ++i) {
    if (ranks[i] < 0 || ranks[i] >= comm.size()) {
      Throw(tuttiInvalidArgument, "excludeRanks[{}] is {}; comm has ranks 0 to {}", i, ranks[i], comm.size() - 1);
    }
    if (ranks[i] == comm.rank()) {
      Throw(tuttiInvalidUsage, "rank {} is in excludeRanks; an excluded rank must not call tuttiCommShrink",
            comm.rank());
    }
  }
  std::ranges::sort(excluded);
  excluded.erase(std::unique(excluded.begin(), excluded.end()), excluded.end());
  return excluded;
}

bootstrap::JoinTicket TicketOf(const tuttiUniqueId& id) {
  auto ticket = bootstrap::DecodeUniqueId(id);
  bootstrap::RequireJobSecret(ticket, GlobalSettings().secret);
  return ticket;
}

}  // namespace
}  // namespace tutti::api

using namespace tutti;       // NOLINT: this file is the C boundary of these namespaces
using namespace tutti::api;  // NOLINT

tuttiResult_t tuttiGetUniqueId(tuttiUniqueId* id) {
  return calls::Guard(nullptr, [&] {
    calls::CheckOutput("uniqueId", id);
    CheckExtension();
    const auto& settings = GlobalSettings();
    *id = bootstrap::EncodeUniqueId(settings.comm_id.empty()
                                        ? bootstrap::OpenRendezvous(settings, nullptr, true)
                                        : bootstrap::TicketFromCommId(settings, bootstrap::ProcessEnvironment()));
  });
}

tuttiResult_t tuttiCommInitRank(tuttiComm_t* comm, int nranks, tuttiUniqueId id, int rank) {
  return tuttiCommInitRankConfig(comm, nranks, id, rank, nullptr);
}

tuttiResult_t tuttiCommInitRankConfig(tuttiComm_t* comm, int nranks, tuttiUniqueId id, int rank,
                                      tuttiConfig_t* config) {
  return calls::GuardCall(nullptr, [&] { return JoinAs(comm, TicketOf(id), nranks, rank, config); });
}

tuttiResult_t tuttiCommInitEnv(tuttiComm_t* comm, tuttiConfig_t* config) {
  return calls::GuardCall(nullptr, [&] {
    const auto where = bootstrap::TicketFromEnvironment(GlobalSettings(), bootstrap::ProcessEnvironment());
    return JoinAs(comm, where.ticket, where.nranks, where.rank, config);
  });
}

tuttiResult_t tuttiCommInitAll(tuttiComm_t* comms, int ndev, const int* devlist) {
  return calls::GuardCall(nullptr, [&] {
    calls::CheckOutput("comms", comms);
    if (ndev < 1) Throw(tuttiInvalidArgument, "ndev is {}; it must be at least 1", ndev);
    const int devices = GlobalSettings().gpu ? memory::CudaDevicesInUse() : 0;
    // Check everything before the group begins: an error must not leave the group open.
    std::vector<comm::Options> options;
    for (int rank = 0; rank < ndev; ++rank) {
      tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
      if (devices > 0) config.device = devlist != nullptr ? devlist[rank] : rank % devices;
      options.push_back(OptionsOf(&config));
    }
    const auto ticket = bootstrap::OpenRendezvous(GlobalSettings());
    const auto mark = calls::MarkGroup();
    calls::StartGroup();
    try {
      for (int rank = 0; rank < ndev; ++rank) {
        JoinWith(&comms[rank], ticket, ndev, rank, options[static_cast<std::size_t>(rank)]);
      }
    } catch (...) {
      calls::AbandonGroup(mark);
      throw;
    }
    return calls::EndGroup();
  });
}

tuttiResult_t tuttiCommSplit(tuttiComm_t comm, int color, int key, tuttiComm_t* newcomm, tuttiConfig_t* config) {
  const CallsFrom caller;
  return calls::GuardCall(comm, [&] {
    const calls::Operating operating(comm);
    auto& handle = operating.handle();
    calls::CheckOutput("newcomm", newcomm);
    if (color < 0 && color != TUTTI_SPLIT_NOCOLOR) {
      Throw(tuttiInvalidArgument, "color is {}; it must be at least 0, or TUTTI_SPLIT_NOCOLOR", color);
    }
    const auto options = OptionsOf(calls::Usable(handle), config);
    const auto parent = handle.shared_from_this();
    const auto split = [=](const std::atomic<bool>& cancel) {
      return calls::Alive(*parent).Split(color, key, options, cancel);
    };
    if (color >= 0) {
      return calls::JoinInto(newcomm, -1, 0, options, comm, [=](tuttiComm& child) { return split(child.cancel); });
    }
    calls::Show(newcomm, nullptr);
    return calls::TakePart(parent, [=] { split(parent->cancel); });
  });
}

tuttiResult_t tuttiCommShrink(tuttiComm_t comm, const int* excludeRanks, int excludeCount, tuttiComm_t* newcomm,
                              tuttiConfig_t* config, int shrinkFlags) {
  return calls::GuardCall(comm, [&] {
    const calls::Operating operating(comm);
    auto& handle = operating.handle();
    auto& made = calls::Made(handle);
    calls::CheckOutput("newcomm", newcomm);
    const int flags = shrinkFlags & ~TUTTI_SHRINK_EXACT;
    const bool exact = flags != shrinkFlags;
    if (flags != TUTTI_SHRINK_DEFAULT && flags != TUTTI_SHRINK_ABORT) {
      Throw(tuttiInvalidArgument, "shrinkFlags is {:#x}; it takes TUTTI_SHRINK_DEFAULT or TUTTI_SHRINK_ABORT", flags);
    }
    const auto options = OptionsOf(made, config);
    const auto excluded = ExcludedRanks(made, excludeRanks, excludeCount);
    if (flags == TUTTI_SHRINK_ABORT) made.Revoke();
    const auto parent = handle.shared_from_this();
    return calls::JoinInto(newcomm, -1, 0, options, comm, [=](tuttiComm& child) {
      return parent->communicator->Shrink(excluded, exact, options, child.cancel);
    });
  });
}

tuttiResult_t tuttiCommGrow(tuttiComm_t comm, int nranks, const tuttiUniqueId* id, int rank, tuttiComm_t* newcomm,
                            tuttiConfig_t* config) {
  const CallsFrom caller;
  return calls::GuardCall(comm, [&] {
    calls::CheckOutput("newcomm", newcomm);
    if (comm == nullptr) {
      if (id == nullptr)
        Throw(tuttiInvalidArgument, "id is NULL; a new rank must pass the unique id that comm's ranks pass");
      return JoinAs(newcomm, TicketOf(*id), nranks, rank, config);
    }
    const calls::Operating operating(comm);
    auto& handle = operating.handle();
    auto& usable = calls::Usable(handle);
    if (nranks <= usable.size()) {
      Throw(tuttiInvalidArgument, "nranks is {}; it must be more than the {} ranks of comm", nranks, usable.size());
    }
    const auto given = id == nullptr ? std::nullopt : std::optional(*id);
    const auto options = OptionsOf(usable, config);
    const auto parent = handle.shared_from_this();
    return calls::JoinInto(newcomm, -1, 0, options, comm, [=](tuttiComm& child) {
      return calls::Alive(*parent).Grow(nranks, given, options, child.cancel);
    });
  });
}
