#include "transports/ucx/transport.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "transports/ucx/ucx.h"

namespace tutti::ucx {
namespace {

// The most rounds in a row, so that a peer that sends endlessly does not keep this rank from its other work.
constexpr int kRoundsInARow = 8;
// How long a leaving rank waits until the others notice. A peer that is computing notices before it sends anything.
constexpr Deadline::Milliseconds kPatience{50};
// The longest wait until UCX has given up what was on its way.
constexpr Deadline::Milliseconds kLongestEnd{200};

std::string WhyNot(const Settings& /*settings*/) {
  try {
    const UcxWorker worker(1);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

UcxTransport::UcxTransport(int rank, const std::vector<int>& peers, const auth::SecretKey& key,
                           const Settings& settings, const AllGather& all_gather,
                           progress::NetworkTransportEvents& events)
    : side::Transport("UCX", rank, peers, key, settings, all_gather, events, kPatience), worker_(peers.size()) {
  worker_.Receive(&UcxTransport::Arrived, this);
  channel().Watch(worker_.descriptor());
  for (const int peer : peers) Add(std::make_unique<UcxPeer>(peer, rank, worker_, shared()));
  Log(Subject::transport, "rank {}: UCX {} to {} ranks, its address has {} bytes", rank,
      worker_.library().get_version_string(), peers.size(), worker_.address().size());
}

UcxTransport::~UcxTransport() {
  for (const int rank : known()) Own(rank).Stop();
  Settle([this] { return std::ranges::all_of(known(), [this](int rank) { return Own(rank).settled(); }); });
  CloseChannel();
}

template <typename Settled>
void UcxTransport::Settle(Settled&& settled) {
  const auto end = Deadline::After(kLongestEnd);
  while (!settled() && !end.Passed()) {
    if (!worker_.Progress()) std::this_thread::yield();
  }
}

ucs_status_t UcxTransport::Arrived(void* transport, const void* header, std::size_t header_bytes, void* data,
                                   std::size_t length, const ucp_am_recv_param_t* parameters) noexcept {
  auto& self = *static_cast<UcxTransport*>(transport);
  UcxHeader of{};
  const bool whole = header_bytes == sizeof of;
  if (whole) std::memcpy(&of, header, sizeof of);
  auto* const peer = whole ? static_cast<UcxPeer*>(self.Find(of.sender)) : nullptr;
  if (peer == nullptr || of.token != peer->token()) {
    if (self.strangers_++ == 0) {
      Log(Subject::transport, "rank {}: dropping UCX messages from a process that is not in this job", self.rank());
    }
    return UCS_OK;
  }
  return peer->Arrived(of, data, length, (parameters->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0);
}

bool UcxTransport::Move() {
  int rounds = 0;
  while (rounds < kRoundsInARow && worker_.Progress()) ++rounds;
  return rounds > 0;
}

void UcxTransport::Abandon(int rank) {
  side::Transport::Abandon(rank);
  Settle([&] { return Own(rank).settled(); });
}

constexpr progress::NetworkKind kNetwork{tuttiTransportUcx, "ucx",   false,
                                         &WhyNot,           nullptr, &progress::Make<UcxTransport>};

}  // namespace tutti::ucx
