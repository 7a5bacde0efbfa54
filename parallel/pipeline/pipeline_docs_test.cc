// The picture of docs/parallel_pipeline.md.
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

TEST(PipelineDocs, ThePictureIsWhatIsDrawn) {
  std::vector<PipelineChart> charts;
  for (const auto& schedule :
       {gpipe(4, 8), one_forward_one_backward(4, 8), interleaved_one_forward_one_backward(4, 8, 2),
        zero_bubble_h1(4, 8), zero_bubble_v(4, 8)}) {
    const double forward = 1.0 / schedule.chunks;
    charts.push_back({schedule, pipeline_simulate(schedule, PipelineDurations::uniform(4, forward, 2 * forward))});
  }
  EXPECT_EQ(draw(charts), Read("docs/pictures/pipeline_schedules.svg")) << "scripts/docs.sh draws it again";
}

}  // namespace
}  // namespace tutti::parallel
