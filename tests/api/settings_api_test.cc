// The API that reports the settings in force.
#include <map>

#include "testing/ranks.h"

namespace tutti::testing {
namespace {

TEST(SettingsApi, TellsWhatIsInForceButNoSecret) {
  RunAlone(
      [] {
        std::map<std::string, std::string> told;
        const char *name = nullptr, *value = nullptr;
        int count = 0;
        while (tuttiGetSetting(count, &name, &value) == tuttiSuccess) {
          told.emplace(name, value);
          ++count;
        }
        EXPECT_EQ(static_cast<int>(told.size()), count);
        EXPECT_EQ(told["TUTTI_TIMEOUT_MS"], "1234");
        EXPECT_EQ(told["TUTTI_CMA"], "");
        EXPECT_EQ(told["TUTTI_SECRET"], "(set)");
        EXPECT_TRUE(Fails(tuttiGetSetting(count, &name, &value), tuttiInvalidArgument, {"index"}));
        EXPECT_TRUE(Fails(tuttiGetSetting(-1, &name, &value), tuttiInvalidArgument, {"index"}));
        EXPECT_TRUE(Fails(tuttiGetSetting(0, nullptr, &value), tuttiInvalidArgument, {"NULL"}));
        EXPECT_TRUE(Fails(tuttiGetSetting(0, &name, nullptr), tuttiInvalidArgument, {"NULL"}));
      },
      {.environment = {{"TUTTI_TIMEOUT_MS", "1234"}, {"TUTTI_SECRET", "hush"}}});
}

}  // namespace
}  // namespace tutti::testing
