#include "net/handshake.h"

#include <gtest/gtest.h>

#include "net/frame.h"
#include "net/wire.h"

namespace tutti {
namespace {

ClientHello Hello() { return {Purpose::rendezvous, 3, 8, RandomNonce()}; }

TEST(Handshake, HellosRoundTrip) {
  for (const auto purpose : {Purpose::rendezvous, Purpose::hub, Purpose::data, Purpose::reunion}) {
    const ClientHello hello{purpose, kMaxRanks - 1, kMaxRanks, RandomNonce()};
    EXPECT_EQ(DecodeClientHello(Encode(hello)), hello);
  }
  const ServerHello hello{RandomNonce(), RandomNonce()};
  EXPECT_EQ(DecodeServerHello(Encode(hello)), hello);
}

TEST(Handshake, RefusesNumbersOutOfRange) {
  EXPECT_FALSE(DecodeClientHello(Encode(ClientHello{Purpose::hub, 0, 0, {}})));
  EXPECT_FALSE(DecodeClientHello(Encode(ClientHello{Purpose::hub, 8, 8, {}})));
  EXPECT_FALSE(DecodeClientHello(Encode(ClientHello{Purpose::hub, 0, kMaxRanks + 1, {}})));
  EXPECT_FALSE(DecodeClientHello(Encode(ClientHello{static_cast<Purpose>(5), 0, 1, {}})));
}

TEST(Handshake, ProofsDependOnEverythingSaid) {
  const auto key = SecretKey::Random();
  const auto hello = Hello();
  const auto nonce = RandomNonce();
  const auto proof = ClientProof(key, hello, nonce);
  EXPECT_TRUE(SameMac(proof, ClientProof(key, hello, nonce)));
  EXPECT_FALSE(SameMac(proof, ServerProof(key, hello, nonce)));
  EXPECT_FALSE(SameMac(proof, ClientProof(SecretKey::Random(), hello, nonce)));
  EXPECT_FALSE(SameMac(proof, ClientProof(key, hello, RandomNonce())));
  for (const auto change : {0, 1, 2, 3}) {
    auto other = hello;
    if (change == 0) other.purpose = Purpose::hub;
    if (change == 1) other.rank = 4;
    if (change == 2) other.nranks = 9;
    if (change == 3) other.nonce = RandomNonce();
    EXPECT_FALSE(SameMac(proof, ClientProof(key, other, nonce))) << change;
  }
}

TEST(Handshake, EachDirectionOfEachSessionHasItsKey) {
  const auto key = SecretKey::Random();
  const auto hello = Hello();
  const auto one = DeriveSessionKeys(key, hello, RandomNonce());
  const auto two = DeriveSessionKeys(key, hello, RandomNonce());
  EXPECT_FALSE(one.client_to_server == one.server_to_client);
  EXPECT_FALSE(one.client_to_server == two.client_to_server);
}

std::vector<std::byte> Payload(std::size_t size) {
  std::vector<std::byte> payload(size);
  if (size > 0) randombytes_buf(payload.data(), payload.size());
  return payload;
}

TEST(Frame, ArriveWholeHoweverTheyAreCut) {
  const auto key = SecretKey::Random();
  for (const std::size_t piece : {1, 7, 1000, 1 << 22}) {
    FrameSealer sealer(key);
    FrameOpener opener(key);
    std::vector<std::vector<std::byte>> sent;
    std::vector<std::byte> wire;
    for (const std::size_t size : {0, 1, 19, 5000, 0, 3}) {
      sent.push_back(Payload(size));
      sealer.Seal(sent.back(), wire);
    }
    std::vector<std::vector<std::byte>> received;
    for (std::size_t at = 0; at < wire.size(); at += piece) {
      opener.Feed(std::span(wire).subspan(at, std::min(piece, wire.size() - at)));
      while (auto frame = opener.Next()) received.push_back(std::move(*frame));
    }
    EXPECT_EQ(received, sent);
    EXPECT_FALSE(opener.broken());
  }
}

TEST(Frame, EveryFlippedBitBreaksTheStream) {
  const auto key = SecretKey::Random();
  FrameSealer sealer(key);
  std::vector<std::byte> wire;
  sealer.Seal(Payload(20), wire);
  for (std::size_t bit = 0; bit < 8 * wire.size(); ++bit) {
    auto damaged = wire;
    damaged[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    FrameOpener opener(key);
    opener.Feed(damaged);
    // A longer length leaves it waiting, until the bytes that make it whole prove it wrong.
    if (!opener.Next() && !opener.broken()) {
      opener.Feed(std::vector<std::byte>(kMaxFramePayload));
      EXPECT_FALSE(opener.Next());
    }
    EXPECT_TRUE(opener.broken()) << "bit " << bit;
    opener.Feed(wire);
    EXPECT_FALSE(opener.Next()) << "a broken stream recovered";
  }
}

TEST(Frame, CannotBeRepeatedDroppedOrSwapped) {
  const auto key = SecretKey::Random();
  FrameSealer sealer(key);
  std::vector<std::byte> first;
  std::vector<std::byte> second;
  sealer.Seal(Payload(5), first);
  sealer.Seal(Payload(5), second);
  FrameOpener repeated(key);
  repeated.Feed(first);
  EXPECT_TRUE(repeated.Next());
  repeated.Feed(first);
  EXPECT_FALSE(repeated.Next());
  EXPECT_TRUE(repeated.broken());
  FrameOpener dropped(key);
  dropped.Feed(second);
  EXPECT_FALSE(dropped.Next());
  EXPECT_TRUE(dropped.broken());
}

TEST(Frame, HugeLengthIsRefusedAtItsHeader) {
  FrameOpener opener(SecretKey::Random());
  ByteWriter header;
  header.Number(static_cast<std::uint32_t>(kMaxFramePayload + 1));
  header.Bytes(std::vector<std::byte>(kFrameMacBytes));
  opener.Feed(header.bytes());
  EXPECT_FALSE(opener.Next());
  EXPECT_TRUE(opener.broken());
  std::vector<std::byte> out;
  EXPECT_THROW(FrameSealer(SecretKey::Random()).Seal(Payload(kMaxFramePayload + 1), out), Error);
}

}  // namespace
}  // namespace tutti
