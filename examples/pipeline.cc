// Pipelines of stages that only sleep: how much of their time they stand idle, beside the papers' (p - 1) / (m + p -
// 1); and the charts of the schedules.
//   pipeline                                              measures, prints a table
//   pipeline draw|show GPipe|1F1B STAGES MICROBATCHES     the chart as SVG, or for a terminal
#include <sys/wait.h>
#include <tutti/parallel/error.h>
#include <tutti/parallel/pipeline.h>
#include <tutti/parallel/pipeline_draw.h>
#include <tutti/parallel/pipeline_simulate.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace tutti::parallel;  // NOLINT: an example of this library
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kForward{8};
constexpr std::chrono::milliseconds kBackward = 2 * kForward;  // the usual estimate
constexpr int kBatches = 5;                                    // the median is told
const TensorSpec kActivation{{64, 256}, tuttiFloat32};

double Now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

// A stage that computes nothing, and notes when.
class SleepingStage : public PipelineStep {
 public:
  const std::vector<PipelineSpan>& spans() const { return spans_; }

  void forward(int, const Tensor*, const Tensor*) override { Sleep(kForward); }
  void backward(int, const Tensor*, const Tensor*, const Tensor*) override { Sleep(kBackward); }

 private:
  void Sleep(std::chrono::milliseconds duration) {
    const double start = Now();
    std::this_thread::sleep_for(duration);
    spans_.push_back({start, Now()});
  }

  std::vector<PipelineSpan> spans_;
};

// All stages' spans of one batch. Processes of one machine share their clock.
PipelineTimeline Measure(ProcessGroup& group, PipelineParallel& pipeline, const PipelineSchedule& schedule) {
  SleepingStage step;
  pipeline.run(schedule, step);
  const std::size_t count = step.spans().size(), stages = group.ranks().size();
  std::vector<PipelineSpan> mine = step.spans(), all(count * stages);
  group.all_gather(Tensor(mine.data(), {2 * count}, tuttiFloat64),
                   Tensor(all.data(), {2 * count * stages}, tuttiFloat64));
  PipelineTimeline timeline;
  for (auto at = all.begin(); at != all.end(); at += static_cast<std::ptrdiff_t>(count)) {
    timeline.spans.emplace_back(at, at + static_cast<std::ptrdiff_t>(count));
  }
  return timeline;
}

double MedianBubble(ProcessGroup& group, PipelineParallel& pipeline, const PipelineSchedule& schedule) {
  std::array<double, kBatches> bubbles{};
  for (auto& bubble : bubbles) bubble = Measure(group, pipeline, schedule).bubble_fraction();
  std::ranges::sort(bubbles);
  return bubbles[kBatches / 2];
}

// What one of `stages` processes does; the first one prints.
void RunStage(int stage, int stages, const tuttiUniqueId& id) {
  tuttiComm_t comm = nullptr;
  check(tuttiCommInitRank(&comm, stages, id, stage));
  {
    ProcessGroup group(comm);
    PipelineParallel pipeline(group, stage == 0 ? std::nullopt : std::optional(kActivation),
                              stage == stages - 1 ? std::nullopt : std::optional(kActivation));
    for (const int microbatches : {4, 8, 16}) {
      for (const char* name : {"GPipe", "1F1B"}) {
        const double measured = MedianBubble(group, pipeline, get_schedule(name, stages, microbatches));
        const double ideal = ideal_bubble_fraction(stages, microbatches);
        if (stage != 0) continue;
        std::printf("| %d | %d | %s | %.4f | %.4f | %+.1f %% |\n", stages, microbatches, name, measured, ideal,
                    100 * (measured / ideal - 1));
        std::fflush(stdout);
      }
    }
  }
  check(tuttiCommDestroy(comm));
}

// In a process of its own. The first stage makes the id, and writes it into the pipe for each of the others.
int StageProcess(int stage, int stages, const std::array<int, 2>& pipe) {
  try {
    tuttiUniqueId id{};
    constexpr auto kSize = static_cast<ssize_t>(sizeof id);
    if (stage == 0) check(tuttiGetUniqueId(&id));
    for (int other = 1; stage == 0 && other < stages; ++other) {
      if (write(pipe[1], &id, sizeof id) != kSize) throw Error(tuttiSystemError, "the id could not be written");
    }
    if (stage != 0 && read(pipe[0], &id, sizeof id) != kSize) throw Error(tuttiSystemError, "no id came");
    RunStage(stage, stages, id);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "stage %d: %s\n", stage, error.what());
    return 1;
  }
}

int MeasurePipelineOf(int stages) {
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0) return std::perror("pipe"), 1;
  for (int stage = 0; stage < stages; ++stage) {
    const pid_t child = fork();
    if (child < 0) return std::perror("fork"), 1;
    if (child == 0) std::exit(StageProcess(stage, stages, pipe));
  }
  for (const int end : pipe) close(end);
  int failures = 0, status = 0;
  while (wait(&status) > 0) failures += status == 0 ? 0 : 1;
  return failures == 0 ? 0 : 1;
}

int MeasureAll() {
  std::printf("| p | m | schedule | bubble measured | (p-1)/(m+p-1) | difference |\n|---|---|---|---|---|---|\n");
  std::fflush(stdout);  // else every child would print it, too
  for (const int stages : {2, 4}) {
    if (const int status = MeasurePipelineOf(stages); status != 0) return status;
  }
  return 0;
}

int Chart(const std::string& how, const char* name, const char* stages, const char* microbatches) {
  const auto schedule = get_schedule(name, std::atoi(stages), std::atoi(microbatches));
  const auto timeline = pipeline_simulate(
      schedule, PipelineDurations::uniform(schedule.stages, 1, static_cast<double>(kBackward / kForward)));
  const auto chart = how == "draw" ? draw(schedule, timeline) : draw_text(schedule, timeline);
  std::fputs(chart.c_str(), stdout);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    if (arguments.empty()) return MeasureAll();
    if (arguments.size() == 4 && (arguments[0] == "draw" || arguments[0] == "show")) {
      return Chart(arguments[0], argv[2], argv[3], argv[4]);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  std::fprintf(stderr, "usage: %s [draw|show GPipe|1F1B STAGES MICROBATCHES]\n", argv[0]);
  return 2;
}
