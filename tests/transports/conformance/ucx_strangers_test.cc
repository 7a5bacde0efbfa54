// UCX messages from senders that are not peers.
#include <atomic>

#include "base/all_gather.h"
#include "tests/transports/conformance/traffic.h"
#include "transports/ucx/transport.h"
#include "transports/ucx/ucx.h"

namespace tutti::testing {
namespace {

// Sends a message to a worker and waits until UCX has accepted it.
class Stranger {
 public:
  explicit Stranger(std::span<const std::byte> address)
      : worker_(1),
        endpoint_(
            worker_, address, [](void*, ucp_ep_h, ucs_status_t) {}, nullptr) {
    EXPECT_EQ(endpoint_.status(), UCS_OK);
  }

  void Send(std::span<const std::byte> header, std::span<const std::byte> data, unsigned flags) {
    ucp_request_param_t parameters{};
    parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    parameters.flags = flags;
    Await(worker_.library().am_send_nbx(endpoint_.handle(), ucx::UcxWorker::kMessage, header.data(), header.size(),
                                        data.data(), data.size(), &parameters));
    parameters.op_attr_mask = 0;
    Await(worker_.library().ep_flush_nbx(endpoint_.handle(), &parameters));
  }

 private:
  void Await(ucs_status_ptr_t request) {
    ASSERT_FALSE(UCS_PTR_IS_ERR(request));
    if (request == nullptr) return;
    const auto deadline = Patience();
    while (worker_.library().request_check_status(request) == UCS_INPROGRESS && !deadline.Passed()) worker_.Progress();
    EXPECT_EQ(worker_.library().request_check_status(request), UCS_OK);
    worker_.library().request_free(request);
  }

  ucx::UcxWorker worker_;
  ucx::UcxEndpoint endpoint_;
};

std::span<const std::byte> BytesOf(const ucx::UcxHeader& header) { return std::as_bytes(std::span(&header, 1)); }

TEST(UcxStrangers, WhatTheySendIsDroppedAndBreaksNothing) {
  const auto why = ucx::kNetwork.why_not(Settings());
  if (!why.empty()) GTEST_SKIP() << why;
  std::vector<std::byte> address;  // rank 0's
  const Maker make = [&](int rank, const std::vector<int>& peers, const auth::SecretKey& key,
                         const AllGather& all_gather, progress::NetworkTransportEvents& events) {
    auto made = std::make_unique<ucx::UcxTransport>(rank, peers, key, OnLoopback(), all_gather, events);
    if (rank == 0) address = made->address();
    return made;
  };
  RunRanks({make, make}, 1, [&](Rank& rank) {
    rank.meet({});
    MoveAll(rank, 1);
    std::atomic<bool> sent = false;
    std::thread stranger;
    if (rank.rank == 0) {
      stranger = std::thread([&] {
        Stranger one(address);
        const std::vector<std::byte> data(100'000, std::byte{0x66});
        const std::uint32_t slot = 151;  // the next slot that the receiver accepts
        const ucx::UcxHeader as_peer{12345, 1, 0, 0, slot, kTagOfTraffic, 48};
        const auto of = [](ucx::UcxHeader header, std::uint32_t bytes) {
          header.bytes = bytes;
          return header;
        };
        const auto bytes = std::span(data);
        one.Send(BytesOf(as_peer), bytes.first(48), UCP_AM_SEND_FLAG_EAGER);
        one.Send(BytesOf(of(as_peer, 100'000)), bytes, UCP_AM_SEND_FLAG_EAGER);
        one.Send(BytesOf(of(as_peer, 100'000)), bytes, UCP_AM_SEND_FLAG_RNDV);
        one.Send(BytesOf({0, 1, 0, ucx::UcxHeader::kShortMessage, 0, 0, 0}), bytes.first(32), 0);
        one.Send(BytesOf({0, 77, 0, 0, slot, 0, 48}), bytes.first(48), 0);
        one.Send(BytesOf({0, 0, 0, 0, slot, 0, 48}), bytes.first(48), 0);
        one.Send(BytesOf(as_peer).first(7), bytes.first(48), 0);
        one.Send({}, bytes.first(48), 0);
        sent = true;
      });
      EXPECT_TRUE(rank.Until([&] { return sent.load(); }));
      stranger.join();
    }
    rank.meet({});
    std::vector<Traffic> more;
    for (const ring::Protocol protocol : {ring::Protocol::line, ring::Protocol::inlined})
      more.emplace_back(rank, 0, protocol, 100);
    Finish(rank, more);
  });
}

}  // namespace
}  // namespace tutti::testing
