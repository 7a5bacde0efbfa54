// Configs as the raw bytes that programs built against each version of NCCL pass.
#include <cstring>

#include "interop/nccl/tests/testing.h"

namespace tutti::nccl::testing {
namespace {

// The fields' offsets, repeated here because compiled programs hard-code them.
constexpr std::size_t kMagicAt = 8, kVersionAt = 12, kBlockingAt = 16, kMaxCtasAt = 28, kSplitShareAt = 40,
                      kTrafficClassAt = 44, kNameAt = 48, kNvlsCtasAt = 68, kCentricAt = 76, kRmaCtxAt = 84,
                      kPeersAt = 88, kStreamOrderingAt = 92, kCftModeAt = 108, kNvlsModeAt = 112;

struct Version {
  int code;
  std::size_t size;
  std::size_t last_field;  // added by this version; after it, padding
};
constexpr Version kVersions[] = {
    {21400, 24, kBlockingAt}, {21700, 40, kMaxCtasAt}, {21805, 48, kSplitShareAt}, {22602, 48, kTrafficClassAt},
    {22703, 72, kNvlsCtasAt}, {22809, 80, kCentricAt}, {22907, 88, kRmaCtxAt},     {23004, 96, kPeersAt},
    {23007, 96, kStreamOrderingAt}, {23102, 112, kCftModeAt}, {23203, 120, kNvlsModeAt},
};

class Bytes {
 public:
  Bytes(const Version& version, unsigned char padding) {
    bytes_.fill(padding);
    for (std::size_t at = kBlockingAt; at <= version.last_field; at += sizeof(int)) Set(at, NCCL_CONFIG_UNDEF_INT);
    const char* none = nullptr;
    if (version.last_field > kMaxCtasAt) Set(32, none);
    if (version.last_field > kNameAt) Set(kNameAt, none);
    Set(0, version.size);
    Set(kMagicAt, 0xcafebeefU);
    Set(kVersionAt, version.code);
  }
  template <typename Value>
  void Set(std::size_t at, Value value) {
    std::memcpy(bytes_.data() + at, &value, sizeof value);
  }
  ncclConfig_t* config() { return reinterpret_cast<ncclConfig_t*>(bytes_.data()); }

 private:
  alignas(8) std::array<unsigned char, 256> bytes_;
};

ncclResult_t Make(Comm& comm, ncclConfig_t* config) {
  ncclUniqueId id;
  EXPECT_TRUE(Ok(ncclGetUniqueId(&id)));
  return ncclCommInitRankConfig(comm.address(), 1, id, 0, config);
}

ncclResult_t Try(Bytes& bytes) {
  Comm comm;
  return Make(comm, bytes.config());
}

TEST(NcclConfig, IsLaidOutAsNcclLaysItOut) {
  EXPECT_EQ(sizeof(ncclConfig_t), 72U);
  EXPECT_EQ(offsetof(ncclConfig_t, trafficClass), kTrafficClassAt);
  EXPECT_EQ(offsetof(ncclConfig_t, commName), kNameAt);
  EXPECT_EQ(offsetof(ncclConfig_t, nvlsCTAs), kNvlsCtasAt);
  EXPECT_EQ(sizeof(ncclSimInfo_t), 24U);
  EXPECT_EQ(sizeof(ncclUniqueId), 128U);
}

TEST(NcclConfig, OfEveryVersionIsReadAsFarAsItGoes) {
  RunAlone([] {
    for (const auto& version : kVersions) {
      // Bytes in the padding and after the struct are not part of it.
      for (const unsigned char padding : {0x00, 0xff, 0x5a}) {
        Bytes bytes(version, padding);
        EXPECT_TRUE(Ok(Try(bytes))) << version.code << ", padding " << static_cast<int>(padding);
      }
      Bytes bytes(version, 0);
      bytes.Set(version.last_field, -7);
      if (version.last_field == kTrafficClassAt) {
        EXPECT_TRUE(Ok(Try(bytes)));  // any number is valid
      } else {
        EXPECT_TRUE(Fails(Try(bytes), ncclInvalidArgument, "config.")) << version.code;
      }
    }
  });
}

TEST(NcclConfig, IsNotReadPastItsSize) {
  RunAlone([] {
    for (const auto& version : kVersions) {
      Bytes bytes(version, 0x5a);
      bytes.Set(kVersionAt, 23203);  // claims a newer version; all fields within its size count
      for (auto at = version.last_field; at < version.size; at += sizeof(int)) bytes.Set(at, NCCL_CONFIG_UNDEF_INT);
      EXPECT_TRUE(Ok(Try(bytes))) << version.size;
    }
  });
}

TEST(NcclConfig, OfAVersionToComeIsRead) {
  RunAlone([] {
    Bytes bytes({29905, 200, kNvlsModeAt}, 0xff);
    bytes.Set(kBlockingAt, 0);
    Comm comm;
    EXPECT_EQ(Make(comm, bytes.config()), ncclInProgress);
    EXPECT_EQ(Await(comm), ncclSuccess);
  });
}

TEST(NcclConfig, NonsenseIsRefused) {
  RunAlone([] {
    const Version newest = kVersions[std::size(kVersions) - 1];
    const auto refused = [&](std::size_t at, auto value, const char* word) {
      Bytes bytes(newest, 0);
      bytes.Set(at, value);
      EXPECT_TRUE(Fails(Try(bytes), ncclInvalidArgument, word)) << word;
    };
    refused(kMagicAt, 0xdeadbeefU, "NCCL_CONFIG_INITIALIZER");
    refused(0, std::size_t{8}, "NCCL_CONFIG_INITIALIZER");
    refused(kVersionAt, 0, "NCCL_CONFIG_INITIALIZER");
    refused(kBlockingAt, 2, "blocking is 2");
    refused(kBlockingAt + 4, 9, "cgaClusterSize");
    refused(kBlockingAt + 8, 0, "minCTAs");
    refused(kSplitShareAt, -1, "splitShare");
    refused(kNvlsCtasAt, 0, "nvlsCTAs");
    refused(kCentricAt, 5, "nvlinkCentricSched");
    Bytes crossed(newest, 0);
    crossed.Set(kBlockingAt + 8, 8);
    crossed.Set(kMaxCtasAt, 4);
    EXPECT_TRUE(Fails(Try(crossed), ncclInvalidArgument, "minCTAs is 8"));
  });
}

TEST(NcclConfig, InitializerIsAccepted) {
  RunAlone([] {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.commName = "named";
    config.maxCTAs = 32;
    config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
    Comm comm;
    EXPECT_TRUE(Ok(Make(comm, &config)));
    Comm other;
    EXPECT_TRUE(Ok(Make(other, nullptr)));
  });
}

}  // namespace
}  // namespace tutti::nccl::testing
