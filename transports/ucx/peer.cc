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

UcxPeer::UcxPeer(int rank, const Shared& shared)
    : rank_(rank), shared_(shared), token_(auth::RandomNumber()), arrivals_(rank, shared.events) {}

void UcxPeer::Fail(std::string why) {
  if (!why_.empty() || stopped_) return;
  why_ = std::move(why);
  shared_.troubled.push_back(rank_);
}

void UcxPeer::Meet(const UcxGreeting& greeting) {
  if (stopped_) return;
  const std::size_t so_far = address_.size() + greeting.part.size();
  if (up() || so_far > greeting.bytes) return Nonsense();
  their_token_ = greeting.token;
  address_.insert(address_.end(), greeting.part.begin(), greeting.part.end());
  if (so_far < greeting.bytes) return;
  endpoint_ = UcxEndpoint(shared_.worker, address_, &UcxPeer::Failed, this);
  address_ = {};
  if (!up()) return FailWith(endpoint_.status());
  for (const auto& message : std::exchange(waiting_, {})) SendShort(message);
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
  auto& outgoing = NewOutgoing({their_token_, static_cast<std::uint32_t>(shared_.rank), sent_short_, message.connection,
                                message.number, message.tag, message.bytes});
  Post(outgoing, data, message.bytes, 0);
}

void UcxPeer::SendShort(std::span<const std::byte> message) {
  if (!up() && !stopped_) waiting_.emplace_back(message.begin(), message.end());
  if (!usable()) return;
  auto& outgoing = NewOutgoing(
      {their_token_, static_cast<std::uint32_t>(shared_.rank), sent_short_++, UcxHeader::kShortMessage, 0, 0, 0});
  outgoing.own.assign(message.begin(), message.end());
  Post(outgoing, outgoing.own.data(), outgoing.own.size(), UCP_AM_SEND_FLAG_EAGER);
}

std::vector<UcxForwarded> UcxPeer::TakeWaiting() {
  std::vector<UcxForwarded> forwarded;
  for (const auto& message : std::exchange(waiting_, {})) forwarded.push_back(Forward(message));
  return forwarded;
}

UcxForwarded UcxPeer::Forward(std::span<const std::byte> message) {
  ++sent_;
  return {sent_short_++, {{message.begin(), message.end()}}};
}

void UcxPeer::Post(Outgoing& outgoing, const std::byte* data, std::size_t bytes, unsigned flags) {
  ++in_flight_;
  auto parameters = Parameters(&outgoing);
  parameters.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
  parameters.flags = flags;
  parameters.cb.send = &UcxPeer::Gone;
  const auto status = StatusOf(shared_.worker.library().am_send_nbx(
      endpoint_.handle(), UcxWorker::kMessage, &outgoing.header, sizeof outgoing.header, data, bytes, &parameters));
  if (status != UCS_INPROGRESS) Finish(outgoing, status);
}

void UcxPeer::Gone(void* request, ucs_status_t status, void* outgoing) noexcept {
  auto& one = *static_cast<Outgoing*>(outgoing);
  one.peer->shared_.worker.library().request_free(request);
  one.peer->Finish(one, status);
}

void UcxPeer::Finish(Outgoing& outgoing, ucs_status_t status) {
  --in_flight_;
  free_outgoing_.push_back(&outgoing);
  const bool is_slot = outgoing.header.connection != UcxHeader::kShortMessage;
  if (is_slot) --slots_in_flight_;
  if (status != UCS_OK) return FailWith(status);
  if (is_slot && !stopped_) shared_.events.Sent(rank_, outgoing.header.connection, outgoing.header.number);
}

void UcxPeer::Flush() {
  if (!up() || stopped_ || !why_.empty()) return;
  auto parameters = Parameters(this);
  parameters.cb.send = &UcxPeer::Flushed;
  ++in_flight_;
  const auto status = StatusOf(shared_.worker.library().ep_flush_nbx(endpoint_.handle(), &parameters));
  if (status == UCS_INPROGRESS) return;
  --in_flight_;
  if (status != UCS_OK) FailWith(status);
}

void UcxPeer::Flushed(void* request, ucs_status_t status, void* peer) noexcept {
  auto& self = *static_cast<UcxPeer*>(peer);
  self.shared_.worker.library().request_free(request);
  --self.in_flight_;
  if (status != UCS_OK) self.FailWith(status);
}

void UcxPeer::Failed(void* peer, ucp_ep_h /*endpoint*/, ucs_status_t status) noexcept {
  static_cast<UcxPeer*>(peer)->FailWith(status);
}

ucs_status_t UcxPeer::Arrived(const UcxHeader& header, void* data, std::size_t length, bool to_be_fetched) {
  if (stopped_) return UCS_OK;
  if (header.connection == UcxHeader::kShortMessage) {
    if (to_be_fetched || length > progress::kMaxControlBytes) {
      Nonsense();
    } else {
      TakeShort(header.before, {static_cast<const std::byte*>(data), length});
    }
    return UCS_OK;
  }
  auto* const landing = length == header.bytes ? shared_.events.Landing(rank_, header.slot()) : nullptr;
  if (landing == nullptr) {
    Nonsense();
    return UCS_OK;
  }
  if (to_be_fetched) return Fetch(header, data, landing);
  if (length != 0) std::memcpy(landing, data, length);
  arrivals_.Slot(header.before, header.slot());
  return UCS_OK;
}

void UcxPeer::Arrived(const UcxForwarded& message) {
  if (!stopped_) TakeShort(message.before, message.forwarded.message);
}

void UcxPeer::TakeShort(std::uint32_t before, std::span<const std::byte> bytes) {
  if (!arrivals_.Message(before, bytes)) Nonsense();
}

ucs_status_t UcxPeer::Fetch(const UcxHeader& header, void* what, std::byte* landing) {
  auto& incoming = OneOf(incoming_, free_incoming_);
  incoming = {this, header};
  ++in_flight_;
  auto parameters = Parameters(&incoming);
  parameters.cb.recv_am = &UcxPeer::Fetched;
  const auto status = StatusOf(
      shared_.worker.library().am_recv_data_nbx(shared_.worker.handle(), what, landing, header.bytes, &parameters));
  if (status != UCS_INPROGRESS) Finish(incoming, status);
  return UCS_INPROGRESS;  // it is UCX's again
}

void UcxPeer::Fetched(void* request, ucs_status_t status, std::size_t /*length*/, void* incoming) noexcept {
  auto& one = *static_cast<Incoming*>(incoming);
  one.peer->shared_.worker.library().request_free(request);
  one.peer->Finish(one, status);
}

void UcxPeer::Finish(Incoming& incoming, ucs_status_t status) {
  --in_flight_;
  free_incoming_.push_back(&incoming);
  if (status != UCS_OK) return FailWith(status);
  if (!stopped_) arrivals_.Slot(incoming.header.before, incoming.header.slot());
}

void UcxPeer::Stop() {
  stopped_ = true;
  waiting_.clear();
  endpoint_ = {};
}

}  // namespace tutti::ucx
