// Calls every function as wrongly as a program can: NULLs, invalid enumerators, destroyed communicators. Each call
// returns an error code with a message, never crashes, and leaves the communicator usable.
#include <functional>

#include "interop/nccl/tests/testing.h"

namespace tutti::nccl::testing {
namespace {

constexpr auto kNoType = static_cast<ncclDataType_t>(77);
constexpr auto kNoOp = static_cast<ncclRedOp_t>(77);

struct Call {
  const char* name;
  std::function<ncclResult_t(ncclComm_t)> call;
};

float buffer[64];
void* const kData = buffer;

// Each has a good communicator and otherwise bad arguments.
const std::vector<Call>& BadCalls() {
  static const std::vector<Call> calls = {
      {"all_reduce type", [](auto c) { return ncclAllReduce(kData, kData, 1, kNoType, ncclSum, c, nullptr); }},
      {"all_reduce op", [](auto c) { return ncclAllReduce(kData, kData, 1, ncclFloat, kNoOp, c, nullptr); }},
      {"all_reduce null", [](auto c) { return ncclAllReduce(nullptr, kData, 1, ncclFloat, ncclSum, c, nullptr); }},
      {"all_reduce count",
       [](auto c) { return ncclAllReduce(kData, kData, SIZE_MAX, ncclFloat, ncclSum, c, nullptr); }},
      {"reduce root", [](auto c) { return ncclReduce(kData, kData, 1, ncclFloat, ncclSum, 9, c, nullptr); }},
      {"broadcast root", [](auto c) { return ncclBroadcast(kData, kData, 1, ncclFloat, -1, c, nullptr); }},
      {"bcast null", [](auto c) { return ncclBcast(nullptr, 1, ncclFloat, 0, c, nullptr); }},
      {"reduce_scatter null",
       [](auto c) { return ncclReduceScatter(kData, nullptr, 1, ncclInt, ncclSum, c, nullptr); }},
      {"all_gather type", [](auto c) { return ncclAllGather(kData, kData, 1, kNoType, c, nullptr); }},
      {"all_to_all null", [](auto c) { return ncclAlltoAll(nullptr, nullptr, 1, ncclFloat, c, nullptr); }},
      {"gather root", [](auto c) { return ncclGather(kData, kData, 1, ncclFloat, 3, c, nullptr); }},
      {"scatter null", [](auto c) { return ncclScatter(nullptr, nullptr, 1, ncclFloat, 0, c, nullptr); }},
      {"send peer", [](auto c) { return ncclSend(kData, 1, ncclFloat, 5, c, nullptr); }},
      {"recv null", [](auto c) { return ncclRecv(nullptr, 1, ncclFloat, 0, c, nullptr); }},
      {"premulsum null",
       [](auto c) { return ncclRedOpCreatePreMulSum(nullptr, nullptr, ncclFloat, ncclScalarDevice, c); }},
      {"redop destroy", [](auto c) { return ncclRedOpDestroy(kNoOp, c); }},
      {"split null", [](auto c) { return ncclCommSplit(c, 0, 0, nullptr, nullptr); }},
      {"shrink null", [](auto c) { return ncclCommShrink(c, nullptr, 1, nullptr, nullptr, 0); }},
      {"grow null", [](auto c) { return ncclCommGrow(c, 2, nullptr, -1, nullptr, nullptr); }},
      {"grow by none",
       [](auto c) {
         ncclComm_t more;
         return ncclCommGrow(c, 1, nullptr, -1, &more, nullptr);
       }},
      {"growth id null", [](auto c) { return ncclCommGetUniqueId(c, nullptr); }},
      {"count null", [](auto c) { return ncclCommCount(c, nullptr); }},
      {"rank null", [](auto c) { return ncclCommUserRank(c, nullptr); }},
      {"device null", [](auto c) { return ncclCommCuDevice(c, nullptr); }},
      {"async error null", [](auto c) { return ncclCommGetAsyncError(c, nullptr); }},
      {"properties null", [](auto c) { return ncclCommQueryProperties(c, nullptr); }},
      {"register null", [](auto c) { return ncclCommRegister(c, nullptr, 0, nullptr); }},
      {"deregister", [](auto c) { return ncclCommDeregister(c, kData); }},
      {"window null", [](auto c) { return ncclCommWindowRegister(c, nullptr, 0, nullptr, 0); }},
      {"window flags",
       [](auto c) {
         ncclWindow_t window;
         return ncclCommWindowRegister(c, kData, 64, &window, 0x04);
       }},
      {"window deregister", [](auto c) { return ncclCommWindowDeregister(c, reinterpret_cast<ncclWindow_t>(kData)); }},
      {"window pointer null", [](auto c) { return ncclWinGetUserPtr(c, nullptr, nullptr); }},
      {"window pointer",
       [](auto c) {
         void* pointer;
         return ncclWinGetUserPtr(c, reinterpret_cast<ncclWindow_t>(kData), &pointer);
       }},
      {"put into no window",
       [](auto c) { return ncclPutSignal(kData, 1, ncclInt8, 0, nullptr, 0, 0, 0, 0, c, nullptr); }},
      {"put type", [](auto c) { return ncclPutSignal(kData, 1, kNoType, 0, nullptr, 0, 0, 0, 0, c, nullptr); }},
      {"signal peer", [](auto c) { return ncclSignal(1, 0, 0, 0, c, nullptr); }},
      {"signal index", [](auto c) { return ncclSignal(0, -1, 0, 0, c, nullptr); }},
      {"wait for none", [](auto c) { return ncclWaitSignal(0, nullptr, c, nullptr); }},
      {"wait null", [](auto c) { return ncclWaitSignal(1, nullptr, c, nullptr); }},
      {"suspend flags", [](auto c) { return ncclCommSuspend(c, 0x02); }},
      {"memory statistic null", [](auto c) { return ncclCommMemStats(c, ncclStatGpuMemTotal, nullptr); }},
      {"memory statistic",
       [](auto c) {
         uint64_t value;
         return ncclCommMemStats(c, static_cast<ncclCommMemStat_t>(4), &value);
       }},
  };
  return calls;
}

// These fail whatever the arguments.
const std::vector<Call>& UnsupportedCalls() {
  static const std::vector<Call> calls = {
      {"ncclDevCommCreate", [](auto c) { return ncclDevCommCreate(c, nullptr, nullptr); }},
      {"ncclDevCommDestroy", [](auto c) { return ncclDevCommDestroy(c, nullptr); }},
  };
  return calls;
}

// Calls that are valid except for the communicator.
const std::vector<Call>& GoodCalls() {
  static const std::vector<Call> calls = {
      {"all_reduce", [](auto c) { return ncclAllReduce(kData, kData, 1, ncclFloat, ncclSum, c, nullptr); }},
      {"with a stream",
       [](auto c) { return ncclBcast(kData, 1, ncclFloat, 0, c, reinterpret_cast<cudaStream_t>(kData)); }},
      {"count",
       [](auto c) {
         int n;
         return ncclCommCount(c, &n);
       }},
      {"device",
       [](auto c) {
         int n;
         return ncclCommCuDevice(c, &n);
       }},
      {"async error",
       [](auto c) {
         ncclResult_t r;
         return ncclCommGetAsyncError(c, &r);
       }},
      {"suspend", [](auto c) { return ncclCommSuspend(c, NCCL_SUSPEND_MEM); }},
      {"resume", [](auto c) { return ncclCommResume(c); }},
      {"memory statistic",
       [](auto c) {
         uint64_t value;
         return ncclCommMemStats(c, ncclStatGpuMemTotal, &value);
       }},
      {"split",
       [](auto c) {
         ncclComm_t n;
         return ncclCommSplit(c, 0, 0, &n, nullptr);
       }},
      {"shrink",
       [](auto c) {
         int out = 0;
         ncclComm_t n;
         return ncclCommShrink(c, &out, 1, &n, nullptr, 0);
       }},
      {"revoke", [](auto c) { return ncclCommRevoke(c, 0); }},
      {"growth id",
       [](auto c) {
         ncclUniqueId id;
         return ncclCommGetUniqueId(c, &id);
       }},
      {"window pointer",
       [](auto c) {
         void* p;
         return ncclWinGetUserPtr(c, reinterpret_cast<ncclWindow_t>(kData), &p);
       }},
      {"register",
       [](auto c) {
         void* h;
         return ncclCommRegister(c, kData, 64, &h);
       }},
      {"finalize", [](auto c) { return ncclCommFinalize(c); }},
  };
  return calls;
}

bool IsError(ncclResult_t result) { return result == ncclInvalidArgument || result == ncclInvalidUsage; }

TEST(NcclArguments, BadOnesAreRefusedAndTheCommunicatorWorksOn) {
  RunAlone([] {
    const auto comm = Alone();
    for (const auto& [name, call] : BadCalls()) {
      EXPECT_TRUE(IsError(call(comm))) << name;
      EXPECT_STRNE(ncclGetLastError(comm), "") << name;
      EXPECT_EQ(Sum(comm, 3), 3) << "after " << name;
    }
  });
}

TEST(NcclArguments, NullAndDestroyedCommunicatorsAreRefused) {
  RunAlone([] {
    const ncclComm_t gone = [] { return static_cast<ncclComm_t>(Alone()); }();
    for (const auto comm : {static_cast<ncclComm_t>(nullptr), gone}) {
      for (const auto& [name, call] : GoodCalls()) {
        EXPECT_TRUE(IsError(call(comm))) << name << (comm != nullptr ? " on a destroyed comm" : " on NULL");
        EXPECT_STRNE(ncclGetLastError(nullptr), "") << name;
      }
      for (const auto& [name, call] : BadCalls()) EXPECT_TRUE(IsError(call(comm))) << name;
    }
    EXPECT_TRUE(Fails(ncclCommDestroy(gone), ncclInvalidArgument, "destroyed"));
    EXPECT_TRUE(Fails(ncclCommAbort(gone), ncclInvalidArgument, "destroyed"));
    // NCCL returns success for these.
    EXPECT_TRUE(Ok(ncclCommDestroy(nullptr)));
    EXPECT_TRUE(Ok(ncclCommAbort(nullptr)));
  });
}

TEST(NcclArguments, WhatTuttiHasNotIsInvalidUsageThatNamesTheFunction) {
  RunAlone([] {
    const auto comm = Alone();
    for (const auto& [name, call] : UnsupportedCalls()) {
      for (const auto target : {static_cast<ncclComm_t>(comm), static_cast<ncclComm_t>(nullptr)}) {
        EXPECT_TRUE(Fails(call(target), ncclInvalidUsage, name));
      }
    }
    EXPECT_EQ(Sum(comm, 3), 3);
  });
}

TEST(NcclArguments, OfTheLibraryAreRefused) {
  RunAlone([] {
    ncclComm_t comm = nullptr;
    ncclUniqueId nonsense{};
    EXPECT_TRUE(Fails(ncclGetVersion(nullptr), ncclInvalidArgument, "version"));
    EXPECT_TRUE(IsError(ncclGetUniqueId(nullptr)));
    EXPECT_TRUE(IsError(ncclCommInitRank(&comm, 1, nonsense, 0)));
    EXPECT_TRUE(IsError(ncclCommInitRank(nullptr, 1, nonsense, 0)));
    EXPECT_TRUE(IsError(ncclCommInitAll(nullptr, 1, nullptr)));
    EXPECT_TRUE(IsError(ncclCommInitAll(&comm, 0, nullptr)));
    EXPECT_TRUE(Fails(ncclCommInitRankScalable(&comm, 1, 0, 1, nullptr, nullptr), ncclInvalidArgument, "commIds"));
    EXPECT_TRUE(Fails(ncclCommInitRankScalable(&comm, 1, 0, 2, &nonsense, nullptr), ncclInvalidArgument, "nId"));
    EXPECT_TRUE(IsError(ncclMemAlloc(nullptr, 8)));
    EXPECT_TRUE(IsError(ncclMemFree(&comm)));
    EXPECT_TRUE(Fails(ncclGroupEnd(), ncclInvalidUsage, "Start"));
    EXPECT_NE(ncclGetErrorString(static_cast<ncclResult_t>(1234)), nullptr);
    EXPECT_STRNE(ncclGetErrorString(ncclRemoteError), ncclGetErrorString(ncclSuccess));
    ncclResetDebugInit();
  });
}

TEST(NcclArguments, AGroupIsEstimatedAndDoesNotRun) {
  RunAlone([] {
    const auto comm = Alone();
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    float in = 7, out = 0;
    EXPECT_TRUE(Ok(ncclGroupStart()));
    EXPECT_TRUE(Ok(ncclAllReduce(&in, &out, 1, ncclFloat, ncclSum, comm, nullptr)));
    EXPECT_TRUE(Fails(ncclGroupSimulateEnd(nullptr), ncclInvalidArgument, "simInfo"));
    info.magic = 0;
    EXPECT_TRUE(Fails(ncclGroupSimulateEnd(&info), ncclInvalidArgument, "INITIALIZER"));
    info.magic = NCCL_SIM_INFO_MAGIC;
    EXPECT_TRUE(Ok(ncclGroupSimulateEnd(&info)));
    EXPECT_EQ(info.estimatedTime, 0) << "a rank alone";
    EXPECT_EQ(out, 0) << "nothing has run";
    EXPECT_TRUE(Fails(ncclGroupEnd(), ncclInvalidUsage, "ncclGroupStart"));
  });
}

}  // namespace
}  // namespace tutti::nccl::testing
