#include "src/init/near_nics.h"

#include <gtest/gtest.h>

#include "topology/xml/xml.h"

namespace tutti::init {
namespace {

using topology::PathClass;

// Ranks 0 and 1 are on one DGX H100, and 2 on another host; its first GPUs are at these places, and not at the third one.
constexpr std::uint64_t kFirst = 0x11000, kSecond = 0x29000, kNone = 0x77000;

NearNics Of(int rank, const std::vector<std::uint64_t>& bus_ids) {
  const Settings settings;
  const std::string name;
  const shm::Hosts hosts{{0, 0, 1}, {0, 0, 1}};
  const std::vector<bootstrap::Process> roster(3);
  const Meeting meeting{settings, name, rank, hosts, roster, nullptr, Deadline::Never()};
  return NicsNearGpus(meeting, xml::ReadTopologyFile("topology/testdata/dgxh100.xml").system, bus_ids);
}

// A setting may let a rank use any NIC of its host.
TEST(NearNics, KnowTheDistanceOfTheirNeighboursNics) {
  const std::vector<std::uint64_t> both = {kFirst, kSecond, kFirst};
  const auto first = Of(0, both), second = Of(1, both);
  EXPECT_EQ(first.names.front(), "mlx5_0");
  EXPECT_EQ(second.names.front(), "mlx5_1");
  EXPECT_EQ(std::ranges::count(first.names, "mlx5_1"), 0);
  for (const auto& near : {first, second}) EXPECT_EQ(near.distances.size(), 8u);
  EXPECT_EQ(first.distances.at("mlx5_0"), PathClass::PIX);
  EXPECT_EQ(second.distances.at("mlx5_1"), PathClass::PIX);
  EXPECT_EQ(first.distances.at("mlx5_1"), PathClass::PHB);
  EXPECT_EQ(first.distances.at("mlx5_7"), PathClass::SYS);
}

// Another GPU stands for it, whose distances are not its own.
TEST(NearNics, DoNotKnowTheDistanceFromAGpuThatTheTopologyLacks) {
  const auto near = Of(1, {kFirst, kNone, kFirst});
  EXPECT_FALSE(near.names.empty());
  EXPECT_TRUE(near.distances.empty());
}

}  // namespace
}  // namespace tutti::init
