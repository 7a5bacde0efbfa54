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
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transports/progress/network_transport.h"
#include "transports/ucx/arrivals.h"
#include "transports/ucx/messages.h"
#include "transports/ucx/worker.h"

namespace tutti::ucx {

class UcxPeer {
 public:
  // Shared by all peers of a transport; outlives them.
  struct Shared {
    int rank;  // this one
    UcxWorker& worker;
    progress::NetworkTransportEvents& events;
    std::vector<int>& troubled;  // peers that have failed since the transport last looked
  };

  UcxPeer(int rank, const Shared& shared);
  UcxPeer(const UcxPeer&) = delete;
  UcxPeer& operator=(const UcxPeer&) = delete;

  // The token that the peer's messages must carry.
  std::uint64_t token() const { return token_; }
  // Takes a part of the peer's address: the endpoint is made when all parts have come.
  void Meet(const UcxGreeting& greeting);
  bool up() const { return static_cast<bool>(endpoint_); }

  int Room() const;
  void Send(const progress::SlotMessage& message, const std::byte* data);
  // Before up(), the message waits.
  void SendShort(std::span<const std::byte> message);
  // The waiting messages, or this one, which will go another way, numbered as if they had gone this way.
  std::vector<UcxForwarded> TakeWaiting();
  UcxForwarded Forward(std::span<const std::byte> message);
  // Ensures that everything sent arrives.
  void Flush();
  // Nothing is on its way any more.
  bool settled() const { return in_flight_ == 0 && waiting_.empty(); }
  std::uint64_t sent() const { return sent_; }

  // A message through UCX, whose header carries the token; `data` as UCX gives it.
  ucs_status_t Arrived(const UcxHeader& header, void* data, std::size_t length, bool to_be_fetched);
  void Arrived(const UcxForwarded& message);
  // The peer will end its worker: nothing is sent there any more.
  void HearLeaving(const UcxLeaving& leaving) { leaves_after_ = leaving.sent; }
  bool leaving() const { return leaves_after_.has_value(); }
  // Whether everything has arrived that the peer sent before it left.
  bool all_here() const { return leaving() && arrivals_.handed_on() >= *leaves_after_; }

  // Stops sending and handing on; gives up what is on its way, which takes some calls of the worker's Progress().
  void Stop();
  // Why it has failed, for a person; "" if it has not.
  const std::string& why() const { return why_; }

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
  void Fail(std::string why);
  void FailWith(ucs_status_t status) { Fail("UCX: " + UcxPhrase(status)); }
  void Nonsense() { Fail("it sent a malformed message"); }
  bool usable() const { return up() && why_.empty() && !stopped_ && !leaving(); }

  int rank_;
  Shared shared_;
  std::uint64_t token_;
  std::uint64_t their_token_ = 0;
  std::vector<std::byte> address_;  // as far as it has come
  bool stopped_ = false;
  std::string why_;

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
  std::optional<std::uint64_t> leaves_after_;
  UcxEndpoint endpoint_;
};

}  // namespace tutti::ucx
