#include "transports/verbs/queue.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "net/auth/secret_key.h"

namespace tutti::verbs {
namespace {

// Data and the slot's prefix in front of it, which lie apart where a slot refers to data.
constexpr std::uint32_t kPieces = 2;
constexpr std::uint32_t kPacketBits = 24;  // of a packet's sequence number
constexpr std::uint8_t kForever = 7;       // rnr_retry
// How long a sender waits if no receive was posted: 0.64 ms by the specification's table.
constexpr std::uint8_t kReceiveLater = 12;
constexpr std::uint8_t kHops = 255;
constexpr int kRightAccess = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE;

std::uint32_t RandomPacket() {
  auth::EnsureSodium();
  return randombytes_random() >> (32 - kPacketBits);
}

constexpr const char* SaysMtu(std::uint8_t mtu) {
  constexpr std::array<const char*, 6> kTexts = {"none", "256", "512", "1024", "2048", "4096"};
  return mtu < kTexts.size() ? kTexts[mtu] : "none";
}

}  // namespace

VerbsQueue::VerbsQueue(VerbsPort& rail, int peer, bool messages)
    : rail_(rail), peer_(static_cast<std::uint32_t>(peer)), messages_(messages), packet_(RandomPacket()) {
  const auto limit = static_cast<std::uint32_t>(rail.most_requests());
  most_ = std::min(kSends, limit);
  receives_ = std::min(kReceives, limit);
  rail_.AddCompletions(static_cast<unsigned>(most_) + receives_);
  Create();
  if (messages_) {
    const std::size_t bytes = (receives_ + kSendBuffers) * kPartBytes;
    parts_ = std::make_unique<std::byte[]>(bytes);
    region_ = rail_.Register({parts_.get(), bytes}, true);
    for (std::uint32_t i = 0; i < kSendBuffers; ++i) free_parts_.push_back(receives_ + i);
  }
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = static_cast<std::uint8_t>(rail_.port().port);
  attributes.qp_access_flags = kRightAccess;
  int error = LoadedVerbs()->modify_qp(pair_.get(), &attributes,
                                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  for (std::uint32_t i = 0; i < receives_ && error == 0; ++i) error = Receive(i);
  if (error != 0) {
    Throw(tuttiSystemError, "{}: preparing a queue pair failed: {}", rail_.name(), ErrnoText(error));
  }
}

void VerbsQueue::Create() {
  // Devices differ in how much they copy, and show it only by refusing.
  for (std::uint32_t inlined = kPartBytes;; inlined /= 2) {
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = rail_.queue();
    attributes.qp_type = IBV_QPT_RC;
    attributes.sq_sig_all = 1;
    attributes.cap = {static_cast<std::uint32_t>(most_), receives_, kPieces, 1, inlined};
    pair_.reset(LoadedVerbs()->create_qp(rail_.domain(), &attributes));
    if (pair_ != nullptr) {
      inline_bytes_ = attributes.cap.max_inline_data;
      return;
    }
    if (inlined == 0) Throw(tuttiSystemError, "{}: making a queue pair failed: {}", rail_.name(), ErrnoText(errno));
  }
}

QueuePlace VerbsQueue::place() const {
  return {pair_->qp_num,
          packet_,
          rail_.lid(),
          static_cast<std::uint8_t>(rail_.mtu()),
          static_cast<std::uint8_t>(rail_.gid().kind),
          rail_.gid().gid};
}

std::string VerbsQueue::name() const { return fmt::format("{} to {}", rail_.name(), towards_); }

std::string VerbsQueue::Connect(const QueuePlace& theirs, const Settings& settings) {
  const auto mine = place();
  towards_ = TextOf(theirs.gid);
  if (theirs.kind != mine.kind) {
    return fmt::format(
        "{} uses {}, but the peer's port uses {}: choose ports and addresses of one kind with TUTTI_IB_HCA and "
        "TUTTI_IB_GID_INDEX",
        rail_.name(), NameOf(rail_.gid().kind), NameOf(static_cast<GidKind>(theirs.kind)));
  }
  const bool ethernet = rail_.port().ethernet;
  if (ethernet && IsV4(theirs.gid) != IsV4(mine.gid)) {
    return fmt::format(
        "{} has the address {}, but the peer's port has {}: choose addresses of one family with TUTTI_IB_GID_INDEX",
        rail_.name(), TextOf(mine.gid), towards_);
  }
  if (theirs.mtu < IBV_MTU_256 || theirs.mtu > IBV_MTU_4096) {
    return fmt::format("{}: the peer's port has an unsupported MTU of {}", rail_.name(), SaysMtu(theirs.mtu));
  }
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = static_cast<ibv_mtu>(std::min(mine.mtu, theirs.mtu));
  attributes.dest_qp_num = theirs.number;
  attributes.rq_psn = theirs.packet;
  attributes.max_dest_rd_atomic = 1;  // no peer reads, but some devices refuse 0
  attributes.min_rnr_timer = kReceiveLater;
  auto& path = attributes.ah_attr;
  path.port_num = static_cast<std::uint8_t>(rail_.port().port);
  path.sl = static_cast<std::uint8_t>(settings.ib_sl);
  path.dlid = theirs.lid;
  // InfiniBand needs the long address only to leave its subnet, which is the first half of it.
  constexpr std::size_t kSubnetBytes = 8;
  path.is_global = ethernet || !std::equal(mine.gid.begin(), mine.gid.begin() + kSubnetBytes, theirs.gid.begin());
  if (path.is_global != 0) {
    std::memcpy(path.grh.dgid.raw, theirs.gid.data(), theirs.gid.size());
    path.grh.sgid_index = static_cast<std::uint8_t>(rail_.gid().index);
    path.grh.hop_limit = kHops;
    path.grh.traffic_class = static_cast<std::uint8_t>(settings.ib_tc);
  }
  int error = LoadedVerbs()->modify_qp(pair_.get(), &attributes,
                                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (error == 0) {
    attributes = {};
    attributes.qp_state = IBV_QPS_RTS;
    attributes.timeout = static_cast<std::uint8_t>(settings.ib_timeout);
    attributes.retry_cnt = static_cast<std::uint8_t>(settings.ib_retry);
    attributes.rnr_retry = kForever;
    attributes.sq_psn = packet_;
    attributes.max_rd_atomic = 1;
    error = LoadedVerbs()->modify_qp(
        pair_.get(), &attributes,
        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  }
  if (error == 0) return "";
  return fmt::format(
      "{}, from {}: connecting a queue pair failed: {} (is there a route from one address to the other?)", name(),
      TextOf(mine.gid), ErrnoText(error));
}

int VerbsQueue::PostSlot(const Write& write, const Write* data, const WorkId& id, std::uint32_t immediate) {
  const auto request_of = [](const Write& each, const WorkId& its_id, ibv_wr_opcode opcode) {
    ibv_send_wr request{};
    request.wr_id = its_id.Bits();
    request.sg_list = each.pieces.data();
    request.num_sge = static_cast<int>(each.pieces.size());
    request.opcode = opcode;
    request.send_flags = each.inlined ? IBV_SEND_INLINE : 0;
    request.wr.rdma = {each.address, each.key};
    return request;
  };
  auto last = request_of(write, id, IBV_WR_RDMA_WRITE_WITH_IMM);
  last.imm_data = htonl(immediate);
  ibv_send_wr first{};
  if (data != nullptr) {
    auto its_id = id;
    its_id.kind = WorkId::Kind::data;
    first = request_of(*data, its_id, IBV_WR_RDMA_WRITE);
    first.next = &last;
  }
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(pair_.get(), data != nullptr ? &first : &last, &bad);
  if (error == 0) busy_ += data != nullptr ? 2 : 1;
  return error;
}

int VerbsQueue::PostPart(std::span<const std::byte> part, PartImmediate immediate) {
  WorkId id{.kind = WorkId::Kind::part, .rank = peer_};
  ibv_sge piece{reinterpret_cast<std::uint64_t>(part.data()), static_cast<std::uint32_t>(part.size()), 0};
  const bool inlined = Inlines(part.size());
  id.told = inlined;
  if (!inlined) {
    id.number = free_parts_.back();
    std::byte* const buffer = parts_.get() + id.number * kPartBytes;
    std::memcpy(buffer, part.data(), part.size());
    piece.addr = reinterpret_cast<std::uint64_t>(buffer);
    piece.lkey = region_->lkey;
  }
  ibv_send_wr request{};
  request.wr_id = id.Bits();
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND_WITH_IMM;
  request.send_flags = inlined ? IBV_SEND_INLINE : 0;
  request.imm_data = htonl(immediate.Bits());
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(pair_.get(), &request, &bad);
  if (error != 0) return error;
  ++busy_;
  if (!inlined) free_parts_.pop_back();
  return 0;
}

void VerbsQueue::Done(const WorkId& id) {
  --busy_;
  if (id.kind == WorkId::Kind::part && !id.told) free_parts_.push_back(id.number);
}

int VerbsQueue::Receive(std::uint32_t buffer) {
  ibv_recv_wr request{};
  ibv_sge piece{};
  request.wr_id = WorkId{.kind = WorkId::Kind::receive, .rank = peer_, .number = buffer}.Bits();
  if (messages_) {
    piece = {reinterpret_cast<std::uint64_t>(parts_.get() + buffer * kPartBytes), kPartBytes, region_->lkey};
    request.sg_list = &piece;
    request.num_sge = 1;
  }
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(pair_.get(), &request, &bad);
}

void VerbsQueue::Stop() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  LoadedVerbs()->modify_qp(pair_.get(), &attributes, IBV_QP_STATE);
}

}  // namespace tutti::verbs
