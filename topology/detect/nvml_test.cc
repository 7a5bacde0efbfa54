#include "topology/detect/nvml.h"

#include <gtest/gtest.h>

namespace tutti::detect {
namespace {

TEST(Nvml, WithoutALibraryThereAreNoGpus) {
  EXPECT_TRUE(QueryNvml("libnothing-of-this-name.so.1").empty());
  EXPECT_TRUE(QueryNvml("libm.so.6").empty()) << "a library that is another one";
}

TEST(Nvml, TellsGpusAndWhatTheirLinksLeadTo) {
  for (int again = 0; again < 2; ++again) {
    const auto gpus = QueryNvml(TUTTI_FAKE_NVML);
    ASSERT_EQ(gpus.size(), 3U);  // of four; the library refuses one
    EXPECT_EQ(gpus[0].bus_id, "0000:1b:00.0");
    EXPECT_EQ(gpus[1].uuid, "GPU-00000000-0000-0000-0000-000000000001");
    EXPECT_EQ(gpus[0].sm, 90);
    EXPECT_EQ(gpus[2].sm, 89);
    const std::vector<topology::NvlinkDescription> links = {{topology::NvlinkEnd::gpu, "0000:43:00.0", 4},
                                                            {topology::NvlinkEnd::nvswitch, "", 4}};
    EXPECT_EQ(gpus[0].nvlinks, links);
    EXPECT_TRUE(gpus[2].nvlinks.empty());
  }
}

}  // namespace
}  // namespace tutti::detect
