// The pictures of docs/parallel_pipeline.md and docs/parallel.md.
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

PipelineChart ChartOf(const PipelineSchedule& schedule) {
  const double forward = 1.0 / schedule.chunks;
  return {schedule, pipeline_simulate(schedule, PipelineDurations::uniform(4, forward, 2 * forward))};
}

TEST(PipelineDocs, ThePicturesAreWhatIsDrawn) {
  std::vector<PipelineChart> charts;
  for (const auto& schedule :
       {gpipe(4, 8), one_forward_one_backward(4, 8), interleaved_one_forward_one_backward(4, 8, 2),
        zero_bubble_h1(4, 8), zero_bubble_v(4, 8)}) {
    charts.push_back(ChartOf(schedule));
  }
  EXPECT_EQ(draw(charts), Read("docs/pictures/pipeline_schedules.svg")) << "scripts/docs.sh draws it again";
  EXPECT_EQ(draw({ChartOf(one_forward_one_backward(4, 8))}), Read("docs/pictures/parallel_pipeline.svg"))
      << "scripts/docs.sh draws it again";
}

}  // namespace
}  // namespace tutti::parallel
