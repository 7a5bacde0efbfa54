#include "transports/ucx/peer.h"

#include <cstring>
#include <utility>

#include "net/auth/secret_key.h"

namespace tutti::ucx {
namespace {

// A free object, or a new one.
template <typename T>
T& OneOf(std::deque<T>& all, std::vector<T*>& free) {
  if (free.empty()) return all.emplace_back();
  T* const one = free.back();
  free.pop_back();
  return *one;
}

// An operation's initial status: done at once, refused, or on its way with a call of its callback to come.
ucs_status_t StatusOf(ucs_status_ptr_t operation) { return UCS_PTR_STATUS(operation); }

ucp_request_param_t Parameters(void* user) {
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  parameters.user_data = user;
  parameters.memory_type = UCS_MEMORY_TYPE_HOST;
  return parameters;
}

}  // namespace

UcxPeer::UcxPeer(int rank, int self, UcxWorker& worker, const Shared& shared)
    : side::Peer(rank, shared),
      self_(self),
      worker_(worker),
      token_(auth::RandomNumber()),
      arrivals_(rank, shared.events) {}

void UcxPeer::Greet() {
  for (const auto& greeting : GreetingsOf(token_, worker_.address())) Say(Encode(greeting));
}

bool UcxPeer::Hear(std::span<const std::byte> own) {
  if (stopped()) return true;
  auto greeting = DecodeUcxGreeting(own);
  if (!greeting || up() || address_.size() + greeting->part.size() > greeting->bytes) return false;
  their_token_ = greeting->token;
  address_.insert(address_.end(), greeting->part.begin(), greeting->part.end());
  if (address_.size() < greeting->bytes) return true;
  endpoint_ = UcxEndpoint(worker_, address_, &UcxPeer::Failed, this);
  address_ = {};
  if (up()) {
    for (const auto& message : std::exchange(waiting_, {})) SendShort(message);
  } else {
    FailWith(endpoint_.status());
  }
  return true;
}

int UcxPeer::Room() const { return usable() ? kMostSlots - slots_in_flight_ : 0; }

UcxPeer::Outgoing& UcxPeer::NewOutgoing(const UcxHeader& header) {
  auto& outgoing = OneOf(outgoing_, free_outgoing_);
  outgoing.peer = this;
  outgoing.header = header;
  ++sent_;
  return outgoing;
}

void UcxPeer::Send(const progress::SlotMessage& message, const std::byte* data) {
  if (!usable()) return;
  ++slots_in_flight_;
  auto& outgoing = NewOutgoing({their_token_, static_cast<std::uint32_t>(self_), sent_short_, message.connection,
                                message.number, message.tag, message.bytes});
  Post(outgoing, data, message.bytes, 0);
}

void UcxPeer::SendShort(std::span<const std::byte> message) {
  if (!up() && !stopped()) waiting_.emplace_back(message.begin(), message.end());
  if (!usable()) return;
  auto& outgoing =
      NewOutgoing({their_token_, static_cast<std::uint32_t>(self_), sent_short_++, UcxHeader::kShortMessage, 0, 0, 0});
  outgoing.own.assign(message.begin(), message.end());
  Post(outgoing, outgoing.own.data(), outgoing.own.size(), UCP_AM_SEND_FLAG_EAGER);
}

std::uint32_t UcxPeer::CountForwarded() {
  ++sent_;
  return sent_short_++;
}

void UcxPeer::Post(Outgoing& outgoing, const std::byte* data, std::size_t bytes, unsigned flags) {
  ++in_flight_;
  auto parameters = Parameters(&outgoing);
  parameters.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
  parameters.flags = flags;
  parameters.cb.send = &UcxPeer::Gone;
  const auto status = StatusOf(worker_.library().am_send_nbx(endpoint_.handle(), UcxWorker::kMessage, &outgoing.header,
                                                             sizeof outgoing.header, data, bytes, &parameters));
  if (status != UCS_INPROGRESS) Finish(outgoing, status);
}

void UcxPeer::Gone(void* request, ucs_status_t status, void* outgoing) noexcept {
  auto& one = *static_cast<Outgoing*>(outgoing);
  one.peer->worker_.library().request_free(request);
  one.peer->Finish(one, status);
}

void UcxPeer::Finish(Outgoing& outgoing, ucs_status_t status) {
  --in_flight_;
  free_outgoing_.push_back(&outgoing);
  const bool is_slot = outgoing.header.connection != UcxHeader::kShortMessage;
  if (is_slot) --slots_in_flight_;
  if (status != UCS_OK) return FailWith(status);
  if (is_slot && !stopped()) shared().events.Sent(rank(), outgoing.header.connection, outgoing.header.number);
}

void UcxPeer::Leave() {
  if (!up() || stopped() || !why().empty()) return;
  auto parameters = Parameters(this);
  parameters.cb.send = &UcxPeer::Flushed;
  ++in_flight_;
  const auto status = StatusOf(worker_.library().ep_flush_nbx(endpoint_.handle(), &parameters));
  if (status == UCS_INPROGRESS) return;
  --in_flight_;
  if (status != UCS_OK) FailWith(status);
}

void UcxPeer::Flushed(void* request, ucs_status_t status, void* peer) noexcept {
  auto& self = *static_cast<UcxPeer*>(peer);
  self.worker_.library().request_free(request);
  --self.in_flight_;
  if (status != UCS_OK) self.FailWith(status);
}

void UcxPeer::Failed(void* peer, ucp_ep_h /*endpoint*/, ucs_status_t status) noexcept {
  static_cast<UcxPeer*>(peer)->FailWith(status);
}

ucs_status_t UcxPeer::Arrived(const UcxHeader& header, void* data, std::size_t length, bool to_be_fetched) {
  if (stopped()) return UCS_OK;
  if (header.connection == UcxHeader::kShortMessage) {
    if (to_be_fetched || length > progress::kMaxControlBytes) {
      FailAsMalformed();
    } else {
      TakeShort(header.before, {static_cast<const std::byte*>(data), length});
    }
    return UCS_OK;
  }
  auto* const landing = length == header.bytes ? shared().events.Landing(rank(), header.slot()) : nullptr;
  if (landing == nullptr) {
    FailAsMalformed();
    return UCS_OK;
  }
  if (to_be_fetched) return Fetch(header, data, landing);
  if (length != 0) std::memcpy(landing, data, length);
  arrivals_.Slot(header.before, header.slot());
  return UCS_OK;
}

bool UcxPeer::TakeForwarded(const side::Forwarded& forwarded) {
  if (!stopped()) TakeShort(forwarded.before, forwarded.message);
  return true;
}

void UcxPeer::TakeShort(std::uint32_t before, std::span<const std::byte> bytes) {
  if (!arrivals_.Message(before, bytes)) FailAsMalformed();
}

ucs_status_t UcxPeer::Fetch(const UcxHeader& header, void* what, std::byte* landing) {
  auto& incoming = OneOf(incoming_, free_incoming_);
  incoming = {this, header};
  ++in_flight_;
  auto parameters = Parameters(&incoming);
  parameters.cb.recv_am = &UcxPeer::Fetched;
  const auto status =
      StatusOf(worker_.library().am_recv_data_nbx(worker_.handle(), what, landing, header.bytes, &parameters));
  if (status != UCS_INPROGRESS) Finish(incoming, status);
  return UCS_INPROGRESS;  // it is UCX's again
}

void UcxPeer::Fetched(void* request, ucs_status_t status, std::size_t /*length*/, void* incoming) noexcept {
  auto& one = *static_cast<Incoming*>(incoming);
  one.peer->worker_.library().request_free(request);
  one.peer->Finish(one, status);
}

void UcxPeer::Finish(Incoming& incoming, ucs_status_t status) {
  --in_flight_;
  free_incoming_.push_back(&incoming);
  if (status != UCS_OK) return FailWith(status);
  if (!stopped()) arrivals_.Slot(incoming.header.before, incoming.header.slot());
}

void UcxPeer::Stop() {
  side::Peer::Stop();
  waiting_.clear();
  endpoint_ = {};
}

}  // namespace tutti::ucx
