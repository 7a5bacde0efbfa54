#include "transports/tcp.h"

#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <functional>
#include <memory>
#include <thread>

#include "transports/carrier_testing.h"

namespace tutti {
namespace {

constexpr Deadline::Milliseconds kAmple{10'000};

// Two carriers on loopback, driven by the test's thread once they are there.
class TwoCarriers {
 public:
  TwoCarriers() {
    Settings settings;
    settings.socket_ifname = "lo";
    const SecretKey key = SecretKey::Random();
    std::barrier meeting(2);
    std::array<std::vector<std::byte>, 2> said;
    const auto make = [&](int rank) {
      const AllGather all_gather = [&, rank](std::span<const std::byte> mine) {
        said[static_cast<std::size_t>(rank)].assign(mine.begin(), mine.end());
        meeting.arrive_and_wait();
        std::vector<std::vector<std::byte>> all(said.begin(), said.end());
        meeting.arrive_and_wait();
        return all;
      };
      carriers[static_cast<std::size_t>(rank)] = std::make_unique<TcpCarrier>(
          rank, std::vector{1 - rank}, key, settings, all_gather, heard[static_cast<std::size_t>(rank)]);
    };
    std::thread other([&] { make(1); });
    make(0);
    other.join();
    carriers[0]->Connect(1);
    EXPECT_TRUE(Until([&] { return carriers[0]->Room(1) > 0 && carriers[1]->Room(0) > 0; }));
  }

  // Both, or who is left of them.
  bool Until(const std::function<bool()>& done) {
    const auto give_up = Deadline::After(kAmple);
    while (!done() && !give_up.Passed()) {
      for (const auto& carrier : carriers) {
        if (carrier) carrier->Advance();
      }
    }
    return done();
  }

  std::array<HeardEvents, 2> heard;
  std::array<std::unique_ptr<TcpCarrier>, 2> carriers;
};

// The system says of a slot that it reads where it lies when it has done with it. That counts also if the next thing
// that happens is that the peer, which has it all, leaves.
TEST(TcpCarrier, WhoseSlotArrivedBeforeThePeerLeftHearsOfIt) {
  TwoCarriers two;
  auto& [stays, leaves] = two.carriers;
  const std::string text = "so that its connection is looked at first";
  leaves->SendControl(0, std::as_bytes(std::span(text)));
  leaves->Flush(0);
  ASSERT_TRUE(two.Until([&] { return !two.heard[0].texts.empty(); }));

  const std::vector<std::byte> data(256 * 1024, std::byte{7});
  stays->Send(1, {.connection = 1, .number = 1, .tag = 1, .bytes = static_cast<std::uint32_t>(data.size())},
              data.data());
  stays->Flush(1);
  const auto landed = [&] { return !two.heard[1].order.empty(); };
  const auto give_up = Deadline::After(kAmple);
  while (!landed() && !give_up.Passed()) leaves->Advance();
  ASSERT_TRUE(landed());
  leaves.reset();
  ASSERT_TRUE(two.Until([&] { return !two.heard[0].broken.empty(); }));
  EXPECT_EQ(two.heard[0].sent, std::vector<std::uint32_t>{1});
}

}  // namespace
}  // namespace tutti
