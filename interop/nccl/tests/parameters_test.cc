// The reported version, and parameters: TUTTI_* settings as NCCL's callers see them.
#include <set>

#include "interop/nccl/tests/testing.h"

namespace tutti::nccl::testing {
namespace {

void WithVersion(const std::string& text, const std::function<void()>& body) {
  RunAlone(body, {.environment = {{"TUTTI_NCCL_VERSION", text}}});
}

int ClaimedVersion() {
  int version = 0;
  EXPECT_TRUE(Ok(ncclGetVersion(&version)));
  return version;
}

TEST(NcclVersion, IsThatOfItsFunctionsOrASettings) {
  RunAlone([] { EXPECT_EQ(ClaimedVersion(), 23203); });
  WithVersion("", [] { EXPECT_EQ(ClaimedVersion(), 23203); });
  WithVersion("22809", [] { EXPECT_EQ(ClaimedVersion(), 22809); });
  WithVersion("2.18.5", [] { EXPECT_EQ(ClaimedVersion(), 21805); });
  WithVersion("2.30", [] { EXPECT_EQ(ClaimedVersion(), 23000); });
}

TEST(NcclVersion, NonsenseIsRefused) {
  for (const char* text : {"new", "2.", "2.27.7.1", "2.27.7-1", "-22707", "2708", "30000", "2.100.0", "2,27"}) {
    WithVersion(text, [] {
      int version = 0;
      EXPECT_TRUE(Fails(ncclGetVersion(&version), ncclInvalidArgument, "TUTTI_NCCL_VERSION"));
      EXPECT_EQ(Sum(Alone(), 3), 3);  // an invalid version affects no other call
    });
  }
}

// NCCL has a code for timeouts since 2.30.
void TimesOutAs(ncclResult_t wanted, const std::string& version) {
  RunRanks(2,
           [&](Rank& self) {
             Comm comm = Join(self);
             if (self.rank() == 0) {
               float value = 1;
               EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr), wanted);
               ncclResult_t state = ncclSuccess;
               EXPECT_TRUE(Ok(ncclCommGetAsyncError(comm, &state)));
               EXPECT_EQ(state, wanted);
             }
             self.Meet();
           },
           {.environment = {{"TUTTI_NCCL_VERSION", version}, {"TUTTI_TIMEOUT_MS", "200"}}});
}

TEST(NcclVersion, DecidesTheWordForATimeout) {
  TimesOutAs(ncclRemoteError, "2.27.7");
  TimesOutAs(static_cast<ncclResult_t>(8), "2.30.0");
}

void WithSettings(const std::function<void()>& body) {
  RunAlone(body, {.environment = {{"TUTTI_TIMEOUT_MS", "70000"}, {"TUTTI_ALGO", "ring"}, {"TUTTI_SECRET", "hush"}}});
}

ncclParamHandle_t Bound(const char* key) {
  ncclParamHandle_t handle = nullptr;
  EXPECT_TRUE(Ok(ncclParamBind(&handle, key)));
  return handle;
}

TEST(NcclParameters, AreTuttisSettings) {
  WithSettings([] {
    const char* text = nullptr;
    int length = 0;
    EXPECT_TRUE(Ok(ncclParamGetParameter("TUTTI_ALGO", &text, &length)));
    EXPECT_STREQ(text, "ring");
    EXPECT_EQ(length, 4);
    EXPECT_TRUE(Ok(ncclParamGetStr(Bound("TUTTI_SECRET"), &text)));
    EXPECT_STREQ(text, "(set)");

    const char** keys = nullptr;
    int count = 0;
    ASSERT_TRUE(Ok(ncclParamGetAllParameterKeys(&keys, &count)));
    const std::set<std::string> names(keys, keys + count);
    EXPECT_EQ(static_cast<int>(names.size()), count);
    EXPECT_TRUE(names.contains("TUTTI_NCCL_VERSION"));
    for (const auto& name : names) EXPECT_TRUE(Ok(ncclParamGetParameter(name.c_str(), &text, &length)));
  });
}

TEST(NcclParameters, AreReadAsNumbersThatFit) {
  WithSettings([] {
    const auto handle = Bound("TUTTI_TIMEOUT_MS");
    std::int8_t i8;
    std::int16_t i16;
    std::int32_t i32 = 0;
    std::int64_t i64 = 0;
    std::uint8_t u8;
    std::uint16_t u16;
    std::uint32_t u32 = 0;
    std::uint64_t u64 = 0;
    EXPECT_TRUE(Ok(ncclParamGetI32(handle, &i32)));
    EXPECT_TRUE(Ok(ncclParamGetI64(handle, &i64)));
    EXPECT_TRUE(Ok(ncclParamGetU32(handle, &u32)));
    EXPECT_TRUE(Ok(ncclParamGetU64(handle, &u64)));
    EXPECT_EQ(i32, 70000);
    EXPECT_EQ(i64, 70000);
    EXPECT_EQ(u32, 70000U);
    EXPECT_EQ(u64, 70000U);
    EXPECT_TRUE(Fails(ncclParamGetI8(handle, &i8), ncclInvalidArgument, "8 bits"));
    EXPECT_TRUE(Fails(ncclParamGetU8(handle, &u8), ncclInvalidArgument, "8 bits"));
    EXPECT_TRUE(Fails(ncclParamGetI16(handle, &i16), ncclInvalidArgument, "16 bits"));
    EXPECT_TRUE(Fails(ncclParamGetU16(handle, &u16), ncclInvalidArgument, "16 bits"));
    EXPECT_TRUE(Fails(ncclParamGetI32(Bound("TUTTI_ALGO"), &i32), ncclInvalidArgument, "TUTTI_ALGO"));
  });
}

TEST(NcclParameters, AreReadAsBytes) {
  WithSettings([] {
    std::int64_t number = 0;
    int length = 0;
    EXPECT_TRUE(Ok(ncclParamGet(Bound("TUTTI_TIMEOUT_MS"), &number, sizeof number, &length)));
    EXPECT_EQ(number, 70000);
    EXPECT_EQ(length, 8);
    std::array<char, 8> text{};
    EXPECT_TRUE(Ok(ncclParamGet(Bound("TUTTI_ALGO"), text.data(), sizeof text, &length)));
    EXPECT_STREQ(text.data(), "ring");
    EXPECT_EQ(length, 4);
    EXPECT_TRUE(Fails(ncclParamGet(Bound("TUTTI_ALGO"), text.data(), 3, &length), ncclInvalidArgument, "maxLen"));
    EXPECT_EQ(length, 4);
  });
}

TEST(NcclParameters, OthersAreRefused) {
  WithSettings([] {
    ncclParamHandle_t handle = nullptr;
    const char* text = nullptr;
    const char** keys = nullptr;
    int number = 0;
    EXPECT_TRUE(Fails(ncclParamBind(&handle, "NCCL_DEBUG"), ncclInvalidArgument, "NCCL_DEBUG"));
    EXPECT_EQ(handle, nullptr);
    EXPECT_TRUE(Fails(ncclParamBind(&handle, nullptr), ncclInvalidArgument, "key"));
    EXPECT_TRUE(Fails(ncclParamBind(nullptr, "TUTTI_ALGO"), ncclInvalidArgument, "out"));
    EXPECT_TRUE(Fails(ncclParamGetParameter("NCCL_DEBUG", &text, &number), ncclInvalidArgument, "NCCL_DEBUG"));
    EXPECT_TRUE(Fails(ncclParamGetParameter("TUTTI_ALGO", nullptr, &number), ncclInvalidArgument, "value"));
    EXPECT_TRUE(Fails(ncclParamGetAllParameterKeys(nullptr, &number), ncclInvalidArgument, "table"));
    EXPECT_TRUE(Fails(ncclParamGetAllParameterKeys(&keys, nullptr), ncclInvalidArgument, "tableLen"));
    EXPECT_TRUE(Fails(ncclParamGetI32(nullptr, &number), ncclInvalidArgument, "handle"));
    EXPECT_TRUE(
        Fails(ncclParamGetI32(reinterpret_cast<ncclParamHandle_t>(&number), &number), ncclInvalidArgument, "handle"));
    EXPECT_TRUE(Fails(ncclParamGetI32(Bound("TUTTI_CMA"), nullptr), ncclInvalidArgument, "out"));
    EXPECT_TRUE(Fails(ncclParamGetStr(nullptr, &text), ncclInvalidArgument, "handle"));
    EXPECT_TRUE(Fails(ncclParamGet(Bound("TUTTI_CMA"), nullptr, 8, &number), ncclInvalidArgument, "out"));
  });
}

TEST(NcclParameters, AreDumped) {
  WithSettings([] {
    ::testing::internal::CaptureStdout();
    ncclParamDumpAll();
    const auto said = ::testing::internal::GetCapturedStdout();
    EXPECT_NE(said.find("TUTTI_ALGO=ring\n"), std::string::npos) << said;
    EXPECT_EQ(said.find("hush"), std::string::npos);
  });
}

}  // namespace
}  // namespace tutti::nccl::testing
