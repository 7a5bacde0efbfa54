#include "transports/plugin/library.h"

#include <gtest/gtest.h>

#include "base/clocks/deadline.h"
#include "transports/plugin/trial.h"

namespace tutti::plugin {
namespace {

TEST(PluginLibrary, NamesAreFilesOrPartsOfFileNames) {
  EXPECT_EQ(FileOf(""), "libnccl-net.so");
  EXPECT_EQ(FileOf("ofi"), "libnccl-net-ofi.so");
  EXPECT_EQ(FileOf("lib"), "libnccl-net-lib.so");
  EXPECT_EQ(FileOf("libnccl-net-ofi.so"), "libnccl-net-ofi.so");
  EXPECT_EQ(FileOf("libnccl-net-ofi.so.2"), "libnccl-net-ofi.so.2");
  EXPECT_EQ(FileOf("/opt/net.so"), "/opt/net.so");
  EXPECT_EQ(FileOf("./ofi"), "./ofi");
}

TEST(PluginLibrary, ResultsHaveNcclsPhrases) {
  EXPECT_EQ(Describe(Result::system_error), "2 (system error)");
  EXPECT_EQ(Describe(Result::in_progress), "7 (in progress)");
  EXPECT_EQ(Describe(static_cast<Result>(8)), "8 (not a result of NCCL's)");
  EXPECT_EQ(Describe(static_cast<Result>(-1)), "-1 (not a result of NCCL's)");
}

TEST(PluginLibrary, ConnectionsAreCountedAndReturned) {
  Device device;
  device.most_connections = 5;
  Reserved four(device, 4);
  EXPECT_TRUE(four);
  EXPECT_FALSE(Reserved(device, 4)) << "one is left";
  EXPECT_TRUE(Reserved(device, 1));
  four = Reserved();
  EXPECT_TRUE(Reserved(device, 5)) << "all are back";
  device.most_connections = 0;
  EXPECT_TRUE(Reserved(device, 1'000'000)) << "no limit is known";
}

// Libraries of the system load anywhere; what is not there is for dlopen() to report.
TEST(PluginLibrary, WhatLoadsElsewhereIsNotBlamed) {
  const auto patience = Deadline::After(std::chrono::seconds(60));
  EXPECT_EQ(WhyLoadingFails("libc.so.6", patience), "");
  EXPECT_EQ(WhyLoadingFails("/nowhere/library.so", patience), "");
  EXPECT_EQ(WhyLoadingFails("/nowhere/with a:name.so", patience), "");
}

}  // namespace
}  // namespace tutti::plugin
