// Pages whose code the tests run: it compiles, and passes their checks.
#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <set>

#include "parallel/testing.h"

namespace tutti::parallel {
namespace {

enum class Of { page, source };

// Lines without indentation, and no empty ones; of a page only those between ```cpp and ```.
std::vector<std::string> LinesOfCode(const std::string& path, Of what) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  bool is_code = what == Of::source;
  for (std::string line; std::getline(file, line);) {
    if (what == Of::page && line.starts_with("```")) {
      is_code = line == "```cpp";
    } else if (const auto start = line.find_first_not_of(' '); is_code && start != std::string::npos) {
      lines.push_back(line.substr(start));
    }
  }
  return lines;
}

struct Page {
  std::string page;
  std::vector<std::string> tests;
  std::size_t least_lines;
};

class ParallelDocs : public ::testing::TestWithParam<Page> {};
INSTANTIATE_TEST_SUITE_P(
    Pages, ParallelDocs,
    ::testing::Values(Page{"parallel_context", {"context/context_parallel_test.cc"}, 5},
                      Page{"parallel_pipeline", {"pipeline/pipeline_toy.h", "pipeline/pipeline_test.cc"}, 10},
                      Page{"parallel_sharded", {"sharded/fully_sharded_toy.h"}, 15},
                      Page{"parallel_experts", {"expert/moe_training_test.cc", "serving/replica_router_test.cc"}, 20}),
    [](const auto& info) { return info.param.page; });

TEST_P(ParallelDocs, EveryLineOfCodeIsATests) {
  std::set<std::string> tested;
  for (const auto& test : GetParam().tests) {
    for (auto& line : LinesOfCode("parallel/" + test, Of::source)) tested.insert(std::move(line));
  }
  const auto shown = LinesOfCode(fmt::format("docs/{}.md", GetParam().page), Of::page);
  EXPECT_GT(shown.size(), GetParam().least_lines);
  for (const auto& line : shown) EXPECT_TRUE(tested.contains(line)) << line;
}

}  // namespace
}  // namespace tutti::parallel
