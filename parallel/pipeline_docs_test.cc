// The pictures of docs/parallel_pipeline.md.
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

TEST(PipelineDocs, ThePicturesAreWhatIsDrawn) {
  for (const auto& [schedule, path] : {std::pair{gpipe(4, 8), "docs/pipeline_gpipe.svg"},
                                       std::pair{one_forward_one_backward(4, 8), "docs/pipeline_1f1b.svg"}}) {
    EXPECT_EQ(draw(schedule, pipeline_simulate(schedule, PipelineDurations::uniform(4, 1, 2))), Read(path))
        << "scripts/docs.sh draws it again";
  }
}

}  // namespace
}  // namespace tutti::parallel
