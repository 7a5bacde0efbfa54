#include "tutti/parallel/mesh_layout.h"

#include <gtest/gtest.h>

#include <set>

#include "parallel/testing.h"

namespace tutti::parallel {
namespace {

using Groups = std::vector<std::vector<int>>;

TEST(MeshLayout, VariesTheLastAxisFastest) {
  const MeshLayout mesh({{"dp", 2}, {"tp", 4}});
  EXPECT_EQ(mesh.size(), 8);
  EXPECT_EQ(mesh.size("tp"), 4);
  EXPECT_EQ(mesh.coordinate(5, "dp"), 1);
  EXPECT_EQ(mesh.coordinate(5, "tp"), 1);
  EXPECT_EQ(mesh.groups({"tp"}), (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(mesh.groups({"dp"}), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(mesh.groups({"dp", "tp"}), (Groups{{0, 1, 2, 3, 4, 5, 6, 7}}));
  EXPECT_EQ(mesh.groups({}).size(), 8u);
}

// For any axes: a kind of group covers every rank once, its members differ on its axes only, and each is as large as
// its axes say.
TEST(MeshLayout, CoversEveryRankOnce) {
  const std::vector<std::string> names{"a", "b", "c"};
  for (const int a : {1, 2, 3}) {
    for (const int b : {1, 2, 4}) {
      for (const int c : {1, 2, 3}) {
        const MeshLayout mesh({{"a", a}, {"b", b}, {"c", c}});
        for (unsigned subset = 0; subset < 8; ++subset) {
          std::vector<std::string> axes;
          std::size_t size = 1;
          for (unsigned i = 0; i < 3; ++i) {
            if ((subset >> i & 1) == 0) continue;
            axes.push_back(names[i]);
            size *= static_cast<std::size_t>(mesh.size(names[i]));
          }
          std::set<int> seen;
          for (const auto& group : mesh.groups(axes)) {
            EXPECT_EQ(group.size(), size);
            for (const int rank : group) {
              EXPECT_TRUE(seen.insert(rank).second);
              EXPECT_EQ(mesh.group_of(rank, axes), group);
              for (unsigned i = 0; i < 3; ++i) {
                if ((subset >> i & 1) != 0) continue;
                EXPECT_EQ(mesh.coordinate(rank, names[i]), mesh.coordinate(group.front(), names[i]));
              }
            }
          }
          EXPECT_EQ(static_cast<int>(seen.size()), mesh.size());
        }
      }
    }
  }
}

TEST(MeshLayout, RefusesWhatIsNoGrid) {
  EXPECT_TRUE(Throws([] { MeshLayout({{"tp", 0}}); }, tuttiInvalidArgument, {"\"tp\"", "0"}));
  EXPECT_TRUE(Throws([] { MeshLayout({{"tp", 2}, {"tp", 2}}); }, tuttiInvalidArgument, {"two axes", "\"tp\""}));
  EXPECT_TRUE(Throws([] { MeshLayout({{"", 2}}); }, tuttiInvalidArgument, {"no name"}));
  EXPECT_TRUE(Throws([] { MeshLayout({{"tp", 2}}).size("dp"); }, tuttiInvalidArgument, {"\"dp\"", "tp"}));
}

}  // namespace
}  // namespace tutti::parallel
