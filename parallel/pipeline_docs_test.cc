// docs/parallel_pipeline.md says what the sources say.
#include <fstream>
#include <sstream>

#include "parallel/testing.h"
#include "tutti/parallel/pipeline_draw.h"

namespace tutti::parallel {
namespace {

std::string Read(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Without indentation.
std::string Flat(const std::string& text) {
  std::string flat, line;
  for (std::istringstream lines(text); std::getline(lines, line);) {
    line.erase(0, line.find_first_not_of(' '));
    flat += line + '\n';
  }
  return flat;
}

TEST(PipelineDocs, ThePicturesAreWhatIsDrawn) {
  for (const auto& [schedule, path] : {std::pair{gpipe(4, 8), "docs/pipeline_gpipe.svg"},
                                       std::pair{one_forward_one_backward(4, 8), "docs/pipeline_1f1b.svg"}}) {
    EXPECT_EQ(draw(schedule, pipeline_simulate(schedule, PipelineDurations::uniform(4, 1, 2))), Read(path))
        << "scripts/docs.sh draws it again";
  }
}

// So it compiles, and gives the gradients that it should.
TEST(PipelineDocs, TheCodeIsFromTests) {
  const auto page = Read("docs/parallel_pipeline.md");
  const auto test = Flat(Read("parallel/pipeline_toy.h") + Read("parallel/pipeline_test.cc"));
  const std::string opening = "```cpp\n";
  int blocks = 0;
  for (auto start = page.find(opening); start != std::string::npos; start = page.find(opening, start)) {
    start += opening.size();
    const auto code = Flat(page.substr(start, page.find("```", start) - start));
    EXPECT_NE(test.find(code), std::string::npos) << "the tests have no lines\n" << code;
    ++blocks;
  }
  EXPECT_EQ(blocks, 2);
}

}  // namespace
}  // namespace tutti::parallel
