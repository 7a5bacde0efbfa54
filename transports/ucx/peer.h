// One peer through UCX: the endpoint to it, and the messages on their way to and from it.
//
// Everything is an active message: a header, then a slot's data or a short message. UCX decides whether a slot's data
// goes along, or the receiver fetches it straight into the slot where it belongs.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "transports/progress/network_transport.h"
#include "transports/side/peer.h"
#include "transports/ucx/arrivals.h"
#include "transports/ucx/messages.h"
#include "transports/ucx/worker.h"

namespace tutti::ucx {

class UcxPeer final : public side::Peer {
 public:
  // The peer `rank` of rank `self`. The worker and what is shared outlive it.
  UcxPeer(int rank, int self, UcxWorker& worker, const Shared& shared);

  // The token that the peer's messages must carry.
  std::uint64_t token() const { return token_; }
  // A message through UCX, whose header carries the token; `data` as UCX gives it.
  ucs_status_t Arrived(const UcxHeader& header, void* data, std::size_t length, bool to_be_fetched);

  void Greet() override;
  // A part of the peer's address: the endpoint is made when all parts have come.
  bool Hear(std::span<const std::byte> own) override;
  bool up() const override { return static_cast<bool>(endpoint_); }

  int Room() const override;
  void Send(const progress::SlotMessage& message, const std::byte* data) override;
  void SendShort(std::span<const std::byte> message) override;
  std::vector<std::vector<std::byte>> TakeWaiting() override { return std::exchange(waiting_, {}); }
  bool TakeForwarded(const side::Forwarded& forwarded) override;
  bool settled() const override { return in_flight_ == 0 && waiting_.empty(); }

  std::uint64_t sent() const override { return sent_; }
  std::uint64_t handed_on() const override { return arrivals_.handed_on(); }
  void Leave() override;
  // What is on its way takes some more calls of the worker's Progress().
  void Stop() override;

 private:
  // The most slots in flight: enough to keep a network busy with the smallest ones that are worth fetching.
  static constexpr int kMostSlots = 32;

  // One message on its way; UCX reads header and `own` until it has gone.
  struct Outgoing {
    UcxPeer* peer = nullptr;
    UcxHeader header{};
    std::vector<std::byte> own;  // a short message; its memory is reused
  };
  // One slot that is being fetched.
  struct Incoming {
    UcxPeer* peer = nullptr;
    UcxHeader header{};
  };

  // Called by UCX, which does not support exceptions.
  static void Failed(void* peer, ucp_ep_h endpoint, ucs_status_t status) noexcept;
  static void Gone(void* request, ucs_status_t status, void* outgoing) noexcept;
  static void Fetched(void* request, ucs_status_t status, std::size_t length, void* incoming) noexcept;
  static void Flushed(void* request, ucs_status_t status, void* peer) noexcept;

  Outgoing& NewOutgoing(const UcxHeader& header);
  void Post(Outgoing& outgoing, const std::byte* data, std::size_t bytes, unsigned flags);
  void Finish(Outgoing& outgoing, ucs_status_t status);
  void Finish(Incoming& incoming, ucs_status_t status);
  ucs_status_t Fetch(const UcxHeader& header, void* what, std::byte* landing);
  void TakeShort(std::uint32_t before, std::span<const std::byte> bytes);
  std::uint32_t CountForwarded() override;
  void FailWith(ucs_status_t status) { Fail("UCX: " + UcxPhrase(status)); }
  bool usable() const { return up() && why().empty() && !stopped() && !leaving(); }

  int self_;
  UcxWorker& worker_;
  std::uint64_t token_;
  std::uint64_t their_token_ = 0;
  std::vector<std::byte> address_;  // as far as it has come

  std::uint64_t sent_ = 0;
  std::uint32_t sent_short_ = 0;
  int slots_in_flight_ = 0;
  int in_flight_ = 0;  // operations
  std::vector<std::vector<std::byte>> waiting_;
  // UCX refers to those in use by their addresses, which a deque keeps.
  std::deque<Outgoing> outgoing_;
  std::deque<Incoming> incoming_;
  std::vector<Outgoing*> free_outgoing_;
  std::vector<Incoming*> free_incoming_;

  UcxArrivals arrivals_;
  UcxEndpoint endpoint_;
};

}  // namespace tutti::ucx
