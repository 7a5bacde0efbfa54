// The ABI layout that already compiled programs depend on. Structs grow only at their ends, and their `size` says how
// far; enumerators keep their numbers.
#include <gtest/gtest.h>

#include <cstddef>

#include "tutti/tutti.h"

namespace tutti::testing {
namespace {

TEST(Abi, LayoutOfTheConfig) {
  EXPECT_EQ(offsetof(tuttiConfig_t, size), 0u);
  EXPECT_EQ(offsetof(tuttiConfig_t, magic), 8u);
  EXPECT_EQ(offsetof(tuttiConfig_t, version), 12u);
  EXPECT_EQ(offsetof(tuttiConfig_t, blocking), 16u);
  EXPECT_EQ(offsetof(tuttiConfig_t, channels), 20u);
  EXPECT_EQ(offsetof(tuttiConfig_t, threads), 24u);
  EXPECT_EQ(offsetof(tuttiConfig_t, deterministic), 28u);
  EXPECT_EQ(offsetof(tuttiConfig_t, initTimeoutMs), 32u);
  EXPECT_EQ(offsetof(tuttiConfig_t, operationTimeoutMs), 36u);
  EXPECT_EQ(offsetof(tuttiConfig_t, algorithm), 40u);
  EXPECT_EQ(offsetof(tuttiConfig_t, name), 48u);
  EXPECT_EQ(offsetof(tuttiConfig_t, splitShare), 56u);
  EXPECT_EQ(offsetof(tuttiConfig_t, device), 64u);
  EXPECT_EQ(offsetof(tuttiConfig_t, minChannels), 72u);
  EXPECT_EQ(offsetof(tuttiConfig_t, maxChannels), 76u);
  EXPECT_EQ(sizeof(tuttiConfig_t), 80u);
}

TEST(Abi, LayoutOfTheCounters) {
  EXPECT_EQ(offsetof(tuttiCounters_t, size), 0u);
  EXPECT_EQ(offsetof(tuttiCounters_t, operations), 8u);
  EXPECT_EQ(offsetof(tuttiCounters_t, operationsByAlgorithm), 16u);
  EXPECT_EQ(offsetof(tuttiCounters_t, bytesSent), 272u);
  EXPECT_EQ(offsetof(tuttiCounters_t, bytesReceived), 4368u);
  EXPECT_EQ(offsetof(tuttiCounters_t, waitSpins), 8464u);
  EXPECT_EQ(offsetof(tuttiCounters_t, waitYields), 8472u);
  EXPECT_EQ(offsetof(tuttiCounters_t, waitSleeps), 8480u);
  EXPECT_EQ(offsetof(tuttiCounters_t, waitLate), 8488u);
  EXPECT_EQ(offsetof(tuttiCounters_t, waitLostSlices), 8496u);
  EXPECT_EQ(sizeof(tuttiCounters_t), 8504u);
}

TEST(Abi, SizesOfTheRest) {
  EXPECT_EQ(sizeof(tuttiUniqueId), 128u);
  EXPECT_EQ(sizeof(tuttiResult_t), 4u);
  EXPECT_EQ(sizeof(tuttiDataType_t), 4u);
  EXPECT_EQ(sizeof(tuttiRedOp_t), 4u);
}

TEST(Abi, NumbersOfTheEnumerators) {
  // As NCCL numbers them, so that a port needs no table.
  EXPECT_EQ(tuttiSystemError, 2);
  EXPECT_EQ(tuttiInvalidArgument, 4);
  EXPECT_EQ(tuttiRemoteError, 6);
  EXPECT_EQ(tuttiInProgress, 7);
  EXPECT_EQ(tuttiTimeoutError, 8);
  EXPECT_EQ(tuttiInt8, 0);
  EXPECT_EQ(tuttiUint64, 5);
  EXPECT_EQ(tuttiFloat16, 6);
  EXPECT_EQ(tuttiFloat64, 8);
  EXPECT_EQ(tuttiBfloat16, 9);
  EXPECT_EQ(tuttiFloat8e4m3, 10);
  EXPECT_EQ(tuttiFloat8e5m2, 11);
  EXPECT_EQ(tuttiInt16, 12);
  EXPECT_EQ(tuttiUint16, 13);
  EXPECT_EQ(tuttiSum, 0);
  EXPECT_EQ(tuttiProd, 1);
  EXPECT_EQ(tuttiMax, 2);
  EXPECT_EQ(tuttiMin, 3);
  EXPECT_EQ(tuttiAvg, 4);
  EXPECT_EQ(TUTTI_SPLIT_NOCOLOR, -1);
}

}  // namespace
}  // namespace tutti::testing
