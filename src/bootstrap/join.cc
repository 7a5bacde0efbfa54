// Joining as a rank:
//
//   1. rank 0 listens for the others (the future hub of the control plane);
//   2. each rank proves itself to the rendezvous, says who it is, and waits for the verdict: all ranks, and where rank
//      0 listens. The rendezvous may live in any process; after that it only reports ranks that leave on the way;
//   3. each rank proves itself to rank 0, with a key that is fresh for this meeting;
//   4. a barrier, so that Join returns only when all ranks have arrived.
#include <sys/resource.h>

#include <algorithm>
#include <optional>

#include "base/log.h"
#include "net/auth/dial.h"
#include "net/interfaces.h"
#include "src/bootstrap/control_plane.h"
#include "src/bootstrap/job_secret.h"
#include "src/bootstrap/rendezvous/rendezvous.h"

namespace tutti::bootstrap {
namespace {

// Where ranks listen for each other. Ranks that meet on loopback are all on this machine and need no other network,
// unless a machine's name means loopback only to that machine itself.
std::vector<net::SocketAddress> PlacesToListen(const JoinTicket& ticket, const Settings& settings) {
  if (!ticket.StaysOnLoopback()) {
    auto chosen = net::ChooseAddresses(net::LocalInterfaces(), settings.socket_ifname, settings.socket_family);
    if (settings.socket_ifname.empty() && std::ranges::all_of(chosen, &net::SocketAddress::IsLoopback) &&
        std::ranges::any_of(ticket.addresses, &net::SocketAddress::IsLinkLocal)) {
      Throw(tuttiInvalidUsage,
            "the ranks meet at {}, and this machine has no address but loopback's and link-local ones, which mean "
            "something else on another machine: give it another address, or set TUTTI_SOCKET_IFNAME=lo if all ranks "
            "are on this machine",
            net::TextOf(ticket.addresses));
    }
    return chosen;
  }
  std::vector<net::SocketAddress> places;
  for (auto place : ticket.addresses) {
    place.port = 0;
    if (std::ranges::find(places, place) == places.end()) places.push_back(place);
  }
  return places;
}

// Every other rank keeps a connection to rank 0, and another to the rendezvous while the ranks meet. Without this check
// rank 0 would make them wait.
void RequireDescriptors(int nranks, bool serves_rendezvous) {
  const auto needed = static_cast<rlim_t>(nranks) * (serves_rendezvous ? 2 : 1);
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || needed <= limit.rlim_cur) return;
  Throw(tuttiSystemError,
        "rank 0 of {} needs at least {} file descriptors, and this process may hold {}: raise the limit (ulimit -n)",
        nranks, needed, limit.rlim_cur);
}

Verdict AwaitVerdict(auth::SecureChannel& rendezvous, int rank, Deadline deadline, Cancellation cancel) {
  bool asked = false;
  for (;;) {
    while (const auto frame = rendezvous.Receive()) {
      auto verdict = DecodeVerdict(*frame);
      if (!verdict) Throw(tuttiInternalError, "the rendezvous sent rank {} a malformed message", rank);
      return std::move(*verdict);
    }
    if (rendezvous.closed()) {
      Throw(tuttiRemoteError,
            "the rendezvous closed its connection to rank {} before all ranks had joined: the process that serves it "
            "(the caller of tuttiGetUniqueId, or rank 0) has ended or given up",
            rank);
    }
    pollfd fd = rendezvous.Watch();
    switch (net::Wait({&fd, 1}, deadline, cancel)) {
      case net::Wake::cancelled: auth::ThrowCancelled();
      case net::Wake::event: rendezvous.Flush(); break;
      case net::Wake::deadline:
        if (asked) {
          Throw(tuttiTimeoutError,
                "joining timed out at rank {}, and the rendezvous did not report which ranks are missing", rank);
        }
        asked = true;
        rendezvous.Queue(Encode(TimeoutQuery{}));
        deadline = Deadline::After(kLastAnswer);
        break;
    }
  }
}

// Tells those who wait at the rendezvous that this rank does not come. Without success they wait for the time-out.
void TellOthers(const Error& why, const auth::Call& call, const auth::SecretKey& key, const Process& self) {
  try {
    auto rendezvous = auth::Dial(call, key, Deadline::After(kLastAnswer), {});
    rendezvous.Queue(
        Encode(Failure{why.code(), fmt::format("{} failed while joining: {}", Describe(call.rank, self), why.what())}));
  } catch (const Error&) {  // the caller reports the first error
  }
}

auth::SecureChannel CallRendezvous(const auth::Call& call, const auth::SecretKey& key, const Process& self,
                                   Deadline deadline, Cancellation cancel) {
  try {
    return auth::Dial(call, key, deadline, cancel);
  } catch (const Error& error) {
    // A fault of this process alone. It may be over by now.
    if (error.code() == tuttiSystemError) TellOthers(error, call, key, self);
    throw;
  }
}

// The rendezvous's reason for a failure to meet at rank 0: the ranks that left.
std::optional<Error> ReasonFrom(auth::SecureChannel& rendezvous) {
  const auto until = Deadline::After(kLastAnswer);
  while (!rendezvous.closed()) {
    while (const auto frame = rendezvous.Receive()) {
      if (const auto failure = DecodeFailure(*frame)) return Error(failure->code, failure->message);
    }
    pollfd fd = rendezvous.Watch();
    if (net::Wait({&fd, 1}, until) != net::Wake::event) break;
  }
  return std::nullopt;
}

}  // namespace

std::unique_ptr<ControlPlane> ControlPlane::Join(const JoinTicket& ticket, int nranks, int rank,
                                                 const Settings& settings, Deadline deadline, Cancellation cancel,
                                                 const std::function<void()>& arrived) {
  if (nranks < 1 || nranks > static_cast<int>(auth::kMaxRanks)) {
    Throw(tuttiInvalidArgument, "nranks is {}; it must be from 1 to {}", nranks, auth::kMaxRanks);
  }
  if (rank < 0 || rank >= nranks) Throw(tuttiInvalidArgument, "rank is {}; it must be from 0 to {}", rank, nranks - 1);

  JoinRequest request{.version = TUTTI_VERSION_CODE, .process = Process::Current(), .hub = {}};
  std::vector<net::SocketAddress> places;
  std::vector<net::Socket> listeners;
  const auto key = RendezvousKey(WithJobSecret(ticket, settings.secret));
  auth::Call call{.addresses = ticket.addresses,
                  .purpose = auth::Purpose::rendezvous,
                  .rank = rank,
                  .nranks = nranks,
                  .may_be_early = ticket.served_by_rank0 && rank != 0,
                  .whom = ticket.served_by_rank0 ? "the rendezvous (opened by rank 0)" : "the rendezvous"};
  RendezvousHold hold;
  if (rank == 0) {
    if (ticket.served_by_rank0) call.addresses = OpenRendezvousFor(ticket, settings, deadline, cancel, hold);
    try {
      RequireDescriptors(nranks, ticket.served_by_rank0);
      places = PlacesToListen(ticket, settings);
      listeners = net::ListenOnAll(places, "rank 0");
      for (const auto& listener : listeners) request.hub.push_back(net::LocalAddress(listener));
    } catch (const Error& error) {
      TellOthers(error, call, key, request.process);
      hold.Release();
      throw;
    }
  }

  auto rendezvous = CallRendezvous(call, key, request.process, deadline, cancel);
  rendezvous.Queue(Encode(request));
  hold.Release();
  if (arrived) arrived();
  auto verdict = AwaitVerdict(rendezvous, rank, deadline, cancel);
  if (verdict.code != tuttiSuccess) throw Error(verdict.code, verdict.message);
  if (verdict.roster.size() != static_cast<std::size_t>(nranks) || verdict.hub.empty()) {
    Throw(tuttiInternalError, "the rendezvous' answer to rank {} does not match its {} ranks", rank, nranks);
  }

  std::unique_ptr<ControlPlane> plane(new ControlPlane(rank, verdict.roster));
  const auto hub_key = HubKey(key, verdict.session);
  plane->data_key_ = auth::DeriveKey(hub_key, "tutti data", {});
  if (rank == 0) {
    plane->hub_.emplace(verdict.roster,
                        auth::HandshakePool(std::move(listeners), hub_key, auth::Purpose::hub, auth::kCentre),
                        std::move(rendezvous));
    plane->Barrier(deadline, cancel);
  } else {
    const auth::Call to_hub{.addresses = verdict.hub,
                            .purpose = auth::Purpose::hub,
                            .rank = rank,
                            .nranks = nranks,
                            .may_be_early = false,
                            .whom = Describe(0, verdict.roster[0])};
    try {
      auto connection = std::make_shared<SharedChannel>(auth::Dial(to_hub, hub_key, deadline, cancel));
      plane->to_hub_.emplace(std::move(connection), Subchannel::kFirst);
      plane->Barrier(deadline, cancel);
    } catch (const Error& error) {
      if (error.code() != tuttiRemoteError) throw;
      if (const auto reason = ReasonFrom(rendezvous)) throw *reason;
      throw;
    }
  }
  try {
    // Later than rank 0, because now this rank can tell the others why it fails.
    plane->places_ = rank == 0 ? std::move(places) : PlacesToListen(ticket, settings);
  } catch (const Error& error) {
    plane->Refuse(Error(
        error.code(), fmt::format("{} failed while joining: {}", Describe(rank, verdict.roster[rank]), error.what())));
    throw;
  }
  plane->stays_on_loopback_ = ticket.StaysOnLoopback();
  plane->KeepConnections();
  Log(Subject::init, "rank {} of {} joined", rank, nranks);
  return plane;
}

}  // namespace tutti::bootstrap
