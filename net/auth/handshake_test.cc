#include "net/auth/handshake.h"

#include <gtest/gtest.h>

#include "net/auth/frame.h"
#include "net/wire.h"

namespace tutti::auth {
namespace {

ClientHello Hello() { return {Purpose::data, 3, 5, 8, {}, KeyPair::Fresh().share}; }
ServerHello Reply() { return {5, KeyPair::Fresh().share}; }

TEST(Handshake, HellosRoundTrip) {
  for (const auto purpose : {Purpose::rendezvous, Purpose::hub, Purpose::data, Purpose::membership_agreement}) {
    const ClientHello hello{purpose,   kMaxRanks - 1,         kMaxRanks - 2,
                            kMaxRanks, KeyName{std::byte{7}}, KeyPair::Fresh().share};
    EXPECT_EQ(DecodeClientHello(Encode(hello)), hello);
  }
  const ServerHello hello{kMaxRanks - 1, KeyPair::Fresh().share};
  EXPECT_EQ(DecodeServerHello(Encode(hello)), hello);
}

TEST(Handshake, RefusesNumbersOutOfRange) {
  EXPECT_FALSE(DecodeClientHello(Encode(ClientHello{Purpose::hub, 0, 0, 0, {}, {}})));
  EXPECT_FALSE(DecodeClientHello(Encode(ClientHello{Purpose::hub, 8, 0, 8, {}, {}})));
  EXPECT_FALSE(DecodeClientHello(Encode(ClientHello{Purpose::hub, 0, 8, 8, {}, {}})));
  EXPECT_FALSE(DecodeClientHello(Encode(ClientHello{Purpose::hub, 0, 0, kMaxRanks + 1, {}, {}})));
  EXPECT_FALSE(DecodeClientHello(Encode(ClientHello{static_cast<Purpose>(5), 0, 0, 1, {}, {}})));
  EXPECT_FALSE(DecodeServerHello(Encode(ServerHello{kMaxRanks, {}})));
}

TEST(Handshake, ProofsDependOnEverythingSaid) {
  const auto key = SecretKey::Random();
  const auto hello = Hello();
  const auto reply = Reply();
  const auto proof = ClientProof(key, hello, reply);
  EXPECT_TRUE(SameMac(proof, ClientProof(key, hello, reply)));
  EXPECT_FALSE(SameMac(proof, ServerProof(key, hello, reply)));
  EXPECT_FALSE(SameMac(proof, ClientProof(SecretKey::Random(), hello, reply)));
  EXPECT_FALSE(SameMac(proof, ClientProof(key, hello, Reply())));
  for (const auto change : {0, 1, 2, 3, 4}) {
    auto other = hello;
    if (change == 0) other.purpose = Purpose::hub;
    if (change == 1) other.rank = 4;
    if (change == 2) other.callee = 4;
    if (change == 3) other.nranks = 9;
    if (change == 4) other.share = KeyPair::Fresh().share;
    EXPECT_FALSE(SameMac(proof, ClientProof(key, other, reply))) << change;
  }
  auto other = reply;
  other.rank = 4;
  EXPECT_FALSE(SameMac(proof, ClientProof(key, hello, other)));
}

TEST(Handshake, SessionKeysAreWhatOnlyTheTwoEndsCanMake) {
  const auto key = SecretKey::Random();
  const auto client = KeyPair::Fresh(), server = KeyPair::Fresh();
  auto hello = Hello();
  hello.share = client.share;
  const ServerHello reply{5, server.share};
  const auto mine = DeriveSessionKeys(key, hello, reply, client.secret, server.share);
  const auto theirs = DeriveSessionKeys(key, hello, reply, server.secret, client.share);
  ASSERT_TRUE(mine && theirs);
  EXPECT_TRUE(mine->client_to_server == theirs->client_to_server);
  EXPECT_TRUE(mine->server_to_client == theirs->server_to_client);
  EXPECT_FALSE(mine->client_to_server == mine->server_to_client);
  // The job's secret and all that went over the wire are not enough, nor are the shares' secrets without that of the
  // job.
  const auto eavesdropper = DeriveSessionKeys(key, hello, reply, KeyPair::Fresh().secret, server.share);
  EXPECT_FALSE(eavesdropper->client_to_server == mine->client_to_server);
  const auto stranger = DeriveSessionKeys(SecretKey::Random(), hello, reply, client.secret, server.share);
  EXPECT_FALSE(stranger->client_to_server == mine->client_to_server);
  // Shares that make the common value public.
  EXPECT_FALSE(DeriveSessionKeys(key, hello, reply, client.secret, Share{}));
  EXPECT_FALSE(DeriveSessionKeys(key, hello, reply, client.secret, Share{std::byte{1}}));
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

TEST(Frame, HidesItsPayload) {
  FrameSealer sealer(SecretKey::Random());
  const auto payload = Payload(64);
  std::vector<std::byte> wire, again;
  sealer.Seal(payload, wire);
  sealer.Seal(payload, again);
  for (const auto& frame : {wire, again}) {
    EXPECT_EQ(std::search(frame.begin(), frame.end(), payload.begin(), payload.begin() + 8), frame.end());
  }
  EXPECT_NE(wire, again) << "equal payloads look alike";
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
  net::ByteWriter header;
  header.Number(static_cast<std::uint32_t>(kMaxFramePayload + 1));
  header.Bytes(std::vector<std::byte>(kFrameTagBytes));
  opener.Feed(header.bytes());
  EXPECT_FALSE(opener.Next());
  EXPECT_TRUE(opener.broken());
  std::vector<std::byte> out;
  EXPECT_THROW(FrameSealer(SecretKey::Random()).Seal(Payload(kMaxFramePayload + 1), out), Error);
}

}  // namespace
}  // namespace tutti::auth
