// docs/parallel_experts.md shows code that tests run.
#include <fstream>
#include <set>

#include "parallel/testing.h"

namespace tutti::parallel {
namespace {

// Without indentation and empty ones; of a page only what is between ```cpp and ```.
std::vector<std::string> LinesOf(const std::string& path, bool is_page) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  bool shown = !is_page;
  for (std::string line; std::getline(file, line);) {
    if (is_page && line.starts_with("```")) {
      shown = line == "```cpp";
    } else if (const auto start = line.find_first_not_of(' '); shown && start != std::string::npos) {
      lines.push_back(line.substr(start));
    }
  }
  return lines;
}

TEST(ExpertsDocs, EveryLineOfCodeIsATests) {
  std::set<std::string> tested;
  for (const auto* path : {"parallel/moe_layer_test.cc", "parallel/replica_router_test.cc"}) {
    for (auto& line : LinesOf(path, false)) tested.insert(std::move(line));
  }
  const auto shown = LinesOf("docs/parallel_experts.md", true);
  EXPECT_GT(shown.size(), 20u);
  for (const auto& line : shown) EXPECT_TRUE(tested.contains(line)) << line;
}

}  // namespace
}  // namespace tutti::parallel
