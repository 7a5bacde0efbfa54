#include "transports/tcp/seal/seal.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace tutti::tcp {
namespace {

using Part = TcpSeal::Part;
using ByteVector = std::vector<std::byte>;

TEST(TcpSeal, APartIsOpenedByItsOwnItemPartAndHeaderAlone) {
  const auto key = auth::SecretKey::Random();
  const ByteVector header(16, std::byte{1}), body(5000, std::byte{2});
  for (const auto protection : {DataProtection::authenticate, DataProtection::encrypt}) {
    TcpSeal sender(protection, key);
    sender.Next();
    ByteVector sent = body;
    const auto tag = sender.Close(Part::behind, header, body, sent.data());
    EXPECT_EQ(sent != body, protection == DataProtection::encrypt);

    const auto opens = [&](const auth::SecretKey& with, int item, Part part, const ByteVector& behind_header) {
      TcpSeal receiver(protection, with);
      for (int i = 0; i < item; ++i) receiver.Next();
      ByteVector came = sent;
      return receiver.Open(part, behind_header, came, tag) && came == body;
    };
    EXPECT_TRUE(opens(key, 1, Part::behind, header));
    EXPECT_FALSE(opens(auth::SecretKey::Random(), 1, Part::behind, header));
    EXPECT_FALSE(opens(key, 0, Part::behind, header));
    EXPECT_FALSE(opens(key, 2, Part::behind, header));
    EXPECT_FALSE(opens(key, 1, Part::ahead, header));
    EXPECT_FALSE(opens(key, 1, Part::behind, ByteVector(16)));
  }
}

// A nonce that is used twice would give both bodies away.
TEST(TcpSeal, WhatIsAlikeNeverLooksAlike) {
  TcpSeal seal(DataProtection::encrypt, auth::SecretKey::Random());
  const ByteVector body(64);
  std::set<ByteVector> seen;
  constexpr int kItems = 1000;
  for (int i = 0; i < kItems; ++i) {
    seal.Next();
    for (const auto part : {Part::ahead, Part::behind}) {
      ByteVector hidden(body.size());
      seal.Close(part, {}, body, hidden.data());
      seen.insert(hidden);
    }
  }
  EXPECT_EQ(seen.size(), 2U * kItems);
}

}  // namespace
}  // namespace tutti::tcp
