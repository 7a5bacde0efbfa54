#include "src/bootstrap/unique_id.h"

#include <gtest/gtest.h>

#include <cstring>

#include "net/net_testing.h"
#include "src/bootstrap/rendezvous/rendezvous.h"

namespace tutti::bootstrap {
namespace {

JoinTicket Full() {
  JoinTicket ticket;
  ticket.secret = auth::SecretKey::Random();
  randombytes_buf(ticket.job.data(), ticket.job.size());
  ticket.served_by_rank0 = true;
  ticket.addresses = {*net::SocketAddress::Parse("10.0.0.1", 1), *net::SocketAddress::Parse("10.0.0.2", 65535),
                      *net::SocketAddress::Parse("2001:db8::1", 29500), *net::SocketAddress::Parse("fe80::7", 7)};
  ticket.addresses.back().scope = 3;
  return ticket;
}

tuttiResult_t CodeOf(const tuttiUniqueId& id, std::string& message) {
  try {
    DecodeUniqueId(id);
    return tuttiSuccess;
  } catch (const Error& error) {
    message = error.what();
    return error.code();
  }
}

TEST(UniqueId, RoundTripsTwoAddressesOfEachFamily) {
  auto ticket = Full();
  EXPECT_EQ(DecodeUniqueId(EncodeUniqueId(ticket)), ticket);
  ticket.served_by_rank0 = false;
  ticket.listen_everywhere = true;
  ticket.addresses.resize(1);
  EXPECT_EQ(DecodeUniqueId(EncodeUniqueId(ticket)), ticket);
}

TEST(UniqueId, LeavesOutAddressesBeyondItsRoom) {
  auto ticket = Full();
  const auto many = ticket.addresses;
  for (int i = 0; i < 10; ++i) ticket.addresses.insert(ticket.addresses.end(), many.begin(), many.end());
  const auto back = DecodeUniqueId(EncodeUniqueId(ticket));
  ASSERT_GE(back.addresses.size(), 4u);
  EXPECT_TRUE(std::equal(back.addresses.begin(), back.addresses.end(), ticket.addresses.begin()));
}

TEST(UniqueId, TellsUnfilledForeignAndDamagedApart) {
  std::string message;
  EXPECT_EQ(CodeOf(tuttiUniqueId{}, message), tuttiInvalidArgument);
  EXPECT_NE(message.find("all zero"), std::string::npos);
  tuttiUniqueId noise;
  std::memset(noise.internal, 'x', sizeof(noise.internal));
  EXPECT_EQ(CodeOf(noise, message), tuttiInvalidArgument);
  EXPECT_NE(message.find("not made by"), std::string::npos);
  auto other = EncodeUniqueId(Full());
  other.internal[7] ^= 2;
  EXPECT_EQ(CodeOf(other, message), tuttiInvalidArgument);
  EXPECT_NE(message.find("version"), std::string::npos);
}

TEST(UniqueId, EveryFlippedBitIsFound) {
  const auto id = EncodeUniqueId(Full());
  for (std::size_t bit = 0; bit < 8 * sizeof(id.internal); ++bit) {
    auto damaged = id;
    damaged.internal[bit / 8] = static_cast<char>(damaged.internal[bit / 8] ^ (1 << (bit % 8)));
    std::string message;
    EXPECT_EQ(CodeOf(damaged, message), tuttiInvalidArgument) << "bit " << bit;
  }
}

TEST(UniqueId, KeysDependOnJobSecretAndSession) {
  const auto ticket = Full();
  auto other = ticket;
  EXPECT_TRUE(RendezvousKey(ticket) == RendezvousKey(other));
  other.job[0] ^= std::byte{1};
  EXPECT_FALSE(RendezvousKey(ticket) == RendezvousKey(other));
  const auto key = RendezvousKey(ticket);
  EXPECT_FALSE(HubKey(key, {}) == key);
  EXPECT_FALSE(HubKey(key, {}) == HubKey(key, {std::byte{1}}));
}

}  // namespace
}  // namespace tutti::bootstrap
