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

// Carriers on loopback, each connected to the first one; the test's thread drives them once they are there.
template <std::size_t kRanks>
class CarriersOf {
 public:
  CarriersOf() {
    Settings settings;
    settings.socket_ifname = "lo";
    const SecretKey key = SecretKey::Random();
    std::barrier meeting(kRanks);
    std::array<std::vector<std::byte>, kRanks> said;
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        const AllGather all_gather = [&, rank](std::span<const std::byte> mine) {
          said[rank].assign(mine.begin(), mine.end());
          meeting.arrive_and_wait();
          std::vector<std::vector<std::byte>> all(said.begin(), said.end());
          meeting.arrive_and_wait();
          return all;
        };
        std::vector<int> peers;
        for (std::size_t peer = 0; peer < kRanks; ++peer) {
          if (peer != rank) peers.push_back(static_cast<int>(peer));
        }
        carriers[rank] =
            std::make_unique<TcpCarrier>(static_cast<int>(rank), peers, key, settings, all_gather, heard[rank]);
      });
    }
    for (auto& thread : threads) thread.join();
    for (std::size_t peer = 1; peer < kRanks; ++peer) {
      carriers[0]->Connect(static_cast<int>(peer));
      EXPECT_TRUE(Until([&] { return carriers[0]->Room(static_cast<int>(peer)) > 0 && carriers[peer]->Room(0) > 0; }));
    }
  }

  // All, or who is left of them.
  bool Until(const std::function<bool()>& done) {
    const auto give_up = Deadline::After(kAmple);
    while (!done() && !give_up.Passed()) {
      for (const auto& carrier : carriers) {
        if (carrier) carrier->Advance();
      }
    }
    return done();
  }
  void Say(std::size_t from, int to, std::string_view text) {
    carriers[from]->SendControl(to, std::as_bytes(std::span(text)));
    carriers[from]->Flush(to);
  }

  std::array<HeardEvents, kRanks> heard;
  std::array<std::unique_ptr<TcpCarrier>, kRanks> carriers;
};

// The system says of a slot that it reads where it lies when it has done with it. That counts also if the next thing
// that happens is that the peer, which has it all, leaves.
TEST(TcpCarrier, WhoseSlotArrivedBeforeThePeerLeftHearsOfIt) {
  CarriersOf<2> two;
  auto& [stays, leaves] = two.carriers;
  two.Say(1, 0, "so that its connection is looked at first");
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

// Who asks seldom hears everybody, whoever spoke last.
TEST(TcpCarrier, AllAreHeardThoughOneIsLikely) {
  CarriersOf<3> three;
  for (int i = 0; i < 8; ++i) {
    auto& texts = three.heard[0].texts;
    texts.clear();
    three.Say(1, 0, "the likely one");
    ASSERT_TRUE(three.Until([&] { return texts.size() == 1; }));
    three.Say(2, 0, "the other");
    pollfd waiting{three.carriers[0]->descriptor(), POLLIN, 0};
    ASSERT_EQ(Wait({&waiting, 1}, Deadline::After(kAmple)), Wake::event);
    three.carriers[0]->AdvanceAll();
    EXPECT_EQ(texts.size(), 2u);
  }
}

}  // namespace
}  // namespace tutti
