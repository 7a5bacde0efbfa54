#include "base/settings/unknown_settings.h"

#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

namespace tutti {
namespace {

constexpr std::array<std::string_view, 4> kSettings = {"TUTTI_PROTO", "TUTTI_ALGO", "TUTTI_TIMEOUT_MS",
                                                       "TUTTI_INIT_TIMEOUT_MS"};

constexpr std::array<std::string_view, 1> kFormerNames = {"TUTTI_WIRE"};

std::string Told(std::string_view entry) { return UnknownSettingsIn(std::array{entry}, kSettings, kFormerNames); }

TEST(UnknownSettings, NameTheNearestKnownOne) {
  EXPECT_EQ(Told("TUTTI_PROT=line"),
            "tutti: TUTTI_PROT is not a setting; did you mean TUTTI_PROTO? (`tutti settings` lists them)\n");
  EXPECT_NE(Told("TUTTI_AGLO=ring").find("did you mean TUTTI_ALGO?"), std::string::npos);
  EXPECT_NE(Told("TUTTI_TIMEOUT=3").find("did you mean TUTTI_TIMEOUT_MS?"), std::string::npos);
}

TEST(UnknownSettings, NameOthersVariables) {
  EXPECT_EQ(Told("TUTTI_MPI_REPROT=1"),
            "tutti: TUTTI_MPI_REPROT is not a setting; did you mean TUTTI_MPI_REPORT? (`tutti settings` lists them)\n");
  EXPECT_NE(Told("TUTTI_FAKE_GPU_DEVICE=2").find("did you mean TUTTI_FAKE_GPU_DEVICES?"), std::string::npos);
}

// Their owners' variables, as they read them.
TEST(UnknownSettings, OthersVariablesAreAllKnown) {
  const std::regex variable("\"(TUTTI_[A-Z_]+)\"");
  std::size_t found = 0;
  for (const auto* owner : {"bench/backends/library_nccl.cc", "bench/worker/worker.h", "interop/pmpi/settings.cc",
                            "testing/fake_gpu/environment.cc", "testing/fake_gpu/runtime/verifiable_kernels.cc",
                            "testing/fake_gpu/tests/memory_test.cc", "tests/transports/plugin/test_net.cc"}) {
    std::ifstream file(owner);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    ASSERT_FALSE(text.empty()) << owner << " cannot be read";
    for (std::sregex_iterator each(text.begin(), text.end(), variable), end; each != end; ++each, ++found) {
      EXPECT_EQ(Told((*each)[1].str() + "=1"), "") << owner;
    }
  }
  EXPECT_GT(found, 20u);
}

TEST(UnknownSettings, AreToldWithoutANearOne) {
  EXPECT_EQ(Told("TUTTI_XYZZY=1"), "tutti: TUTTI_XYZZY is not a setting (`tutti settings` lists them)\n");
  EXPECT_EQ(Told("TUTTI_="), "tutti: TUTTI_ is not a setting (`tutti settings` lists them)\n");
}

// The next version drops them.
TEST(UnknownSettings, FormerNamesAreNotSuggested) {
  EXPECT_EQ(Told("TUTTI_WIRE=line"), "");
  EXPECT_EQ(Told("TUTTI_WIRES=line").find("did you mean"), std::string::npos);
}

TEST(UnknownSettings, KnownOnesAndOthersVariablesAreNot) {
  for (const auto* entry :
       {"TUTTI_ALGO=ring", "TUTTI_FAKE_GPU_APART=1", "TUTTI_TEST_NET=x", "HOME=/", "NOTTUTTI_X=1", ""}) {
    EXPECT_EQ(Told(entry), "") << entry;
  }
}

TEST(UnknownSettings, ATerminalObeysNothingInThem) {
  EXPECT_EQ(Told("TUTTI_\x1b[2J=1").find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace tutti
