#include "transports/tcp/seal/gcm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace tutti::tcp {
namespace {

using ByteVector = std::vector<std::byte>;
using MakeGcm = std::unique_ptr<Gcm> (*)(const auth::SecretKey& key);

ByteVector FromHex(std::string_view hex) {
  ByteVector bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  return bytes;
}

ByteVector Counting(std::size_t bytes) {
  ByteVector made(bytes);
  for (std::size_t i = 0; i < bytes; ++i) made[i] = static_cast<std::byte>(i * 7 + i / 256);
  return made;
}

class GcmOf : public ::testing::TestWithParam<MakeGcm> {
 protected:
  void SetUp() override {
    if (GetParam()(auth::SecretKey::Random()) == nullptr) GTEST_SKIP() << "this system has no such library";
  }
};

// Test case 16 of "The Galois/Counter Mode of Operation" by McGrew and Viega, the source of SP 800-38D.
TEST_P(GcmOf, ComputesWhatIsPublished) {
  const auto key = FromHex("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308");
  const auto plain = FromHex(
      "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657"
      "ba637b39");
  const auto header = FromHex("feedfacedeadbeeffeedfacedeadbeefabaddad2");
  const auto hidden = FromHex(
      "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0a"
      "bcc9f662");
  const auto expected = FromHex("76fc6ece0f4e1768cddf8853bb2d551b");
  const Gcm::Nonce nonce = {0xca, 0xfe, 0xba, 0xbe, 0xfa, 0xce, 0xdb, 0xad, 0xde, 0xca, 0xf8, 0x88};
  const auto gcm = GetParam()(auth::SecretKey(std::span<const std::byte, auth::SecretKey::kBytes>(key)));
  ByteVector made(plain.size());
  Gcm::Tag tag;
  ASSERT_TRUE(gcm->Close(nonce, {header, {}, plain, made.data()}, tag));
  EXPECT_EQ(made, hidden);
  EXPECT_TRUE(std::ranges::equal(tag, expected));
  ASSERT_TRUE(gcm->Open(nonce, {header, {}, made, made.data()}, tag));
  EXPECT_EQ(made, plain);
}

// One rank may have a library that its peer lacks.
TEST_P(GcmOf, OpensWhatOpensslClosesAndTheOtherWayRound) {
  const auto key = auth::SecretKey::Random();
  const auto openssl = OpensslGcm(key), own = GetParam()(key);
  const std::vector<std::pair<Gcm*, Gcm*>> ways = {{openssl.get(), own.get()}, {own.get(), openssl.get()}};
  Gcm::Nonce nonce{};
  for (const std::size_t header_bytes : {0, 1, 16, 100}) {
    const auto header = Counting(header_bytes);
    for (const std::size_t bytes : {0, 1, 15, 16, 17, 255, 4096, 100'003}) {
      const auto body = Counting(bytes);
      for (const auto& [closing, opening] : ways) {
        Gcm::Tag tag;
        ++nonce[0];
        ASSERT_TRUE(closing->Close(nonce, {header, body, {}}, tag));
        EXPECT_TRUE(opening->Open(nonce, {header, body, {}}, tag)) << header_bytes << " + " << bytes << " bytes";
        auto wrong = tag;
        wrong[15] ^= std::byte{1};
        EXPECT_FALSE(opening->Open(nonce, {header, body, {}}, wrong));

        ++nonce[1];
        ByteVector hidden(bytes);
        ASSERT_TRUE(closing->Close(nonce, {header, {}, body, hidden.data()}, tag));
        EXPECT_TRUE(opening->Open(nonce, {header, {}, hidden, hidden.data()}, tag));
        EXPECT_EQ(hidden, body) << header_bytes << " + " << bytes << " bytes";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Libraries, GcmOf, ::testing::Values(&OpensslGcm, &IpsecMbGcm),
                         [](const auto& tested) { return tested.param == &OpensslGcm ? "OpenSSL" : "IpsecMb"; });

}  // namespace
}  // namespace tutti::tcp
