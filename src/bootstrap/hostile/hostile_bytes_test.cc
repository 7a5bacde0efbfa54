// The parsers that the fuzz targets run, with truncated, damaged and random inputs, in every test run.
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "src/bootstrap/hostile/parsers_fuzz.h"

namespace tutti::bootstrap {
namespace {

constexpr unsigned kSeed = 20240607;

std::vector<std::byte> Bytes(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

// Valid inputs of every kind.
std::vector<std::vector<std::byte>> Seeds() {
  JoinTicket ticket;
  ticket.addresses = {net::SocketAddress::Loopback(false, 29500), net::SocketAddress::Loopback(true, 29500)};
  const auto id = EncodeUniqueId(ticket);
  const Process process{"host", 4711};
  const std::vector<std::byte> blob(50, std::byte{7});
  std::vector<std::vector<std::byte>> seeds = {
      Bytes(std::as_bytes(std::span(id.internal))),
      Bytes(auth::Encode(auth::ClientHello{auth::Purpose::hub, 1, 4, {}, {}, {}})),
      Bytes(auth::Encode(auth::ServerHello{})),
      Encode(JoinRequest{.version = TUTTI_VERSION_CODE, .process = process, .hub = ticket.addresses}),
      Encode(TimeoutQuery{}),
      Encode(Verdict{tuttiSuccess, "", {}, ticket.addresses, {process, process}}),
      Encode(Contribution{3, blob}),
      Encode(Parts{3, 1, {blob, {}, blob}}),
      Encode(Failure{tuttiRemoteError, "rank 3 is gone"}),
  };
  for (const std::string_view text : {"^=eth0,ib", "eth,lo", "node1:29500", "[::1]:80"}) {
    seeds.push_back(Bytes(std::as_bytes(std::span(text))));
  }
  return seeds;
}

void GiveToAll(std::span<const std::byte> input) {
  // A copy of the exact size, so that a sanitizer detects a read beyond it.
  const std::vector<std::byte> exact(input.begin(), input.end());
  fuzzing::UniqueId(exact);
  fuzzing::Handshake(exact);
  fuzzing::Messages(exact);
  fuzzing::Names(exact);
}

TEST(HostileBytes, Truncated) {
  for (const auto& seed : Seeds()) {
    for (std::size_t size = 0; size <= seed.size(); ++size) GiveToAll(std::span(seed).first(size));
  }
}

TEST(HostileBytes, BitFlipped) {
  for (auto seed : Seeds()) {
    for (std::size_t bit = 0; bit < 8 * seed.size(); ++bit) {
      seed[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
      GiveToAll(seed);
      seed[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    }
  }
}

TEST(HostileBytes, RandomlyDamagedAndRandom) {
  std::mt19937 random(kSeed);
  const auto seeds = Seeds();
  for (int trial = 0; trial < 20'000; ++trial) {
    auto input = seeds[random() % seeds.size()];
    if (trial % 4 == 0) input.assign(random() % 200, std::byte{0});
    const auto changes = trial % 4 == 0 ? input.size() : 1 + random() % 8;
    for (std::size_t i = 0; i < changes && !input.empty(); ++i) {
      // Parsers fail at numbers near their limits.
      constexpr std::array<unsigned, 5> kExtremes = {0x00, 0xff, 0x7f, 0x80, 0x01};
      const auto value = random() % 2 == 0 ? kExtremes[random() % kExtremes.size()] : random();
      input[random() % input.size()] = static_cast<std::byte>(value);
    }
    GiveToAll(input);
  }
}

// The decoders accept the seeds; otherwise the tests above would test nothing.
TEST(HostileBytes, SeedsAreValid) {
  const auto seeds = Seeds();
  EXPECT_TRUE(DecodeJoinRequest(seeds[3]));
  EXPECT_TRUE(DecodeImpatience(seeds[4]));
  EXPECT_TRUE(DecodeVerdict(seeds[5]));
  EXPECT_TRUE(DecodeContribution(seeds[6]));
  EXPECT_TRUE(DecodeParts(seeds[7]));
  EXPECT_TRUE(DecodeFailure(seeds[8]));
}

}  // namespace
}  // namespace tutti::bootstrap
