// Pipelines of stages that only sleep: how much of their time they stand idle, beside the papers' (p - 1) / (m + p -
// 1); and the charts of the schedules.
//   pipeline [MILLISECONDS]                               measures with forwards of so many (20), prints a table
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
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace tutti::parallel;  // NOLINT: an example of this library
using Clock = std::chrono::steady_clock;

constexpr int kBackwardByForward = 2;  // the usual estimate of their durations
constexpr int kBatches = 7;            // the median is told
constexpr const char* kUsualMilliseconds = "20";
const TensorSpec kActivation{{64, 256}, tuttiFloat32};

double Now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

// A stage that computes nothing, and notes when.
class SleepingStage : public PipelineStep {
 public:
  explicit SleepingStage(std::chrono::milliseconds forward) : forward_(forward) {}
  const std::vector<PipelineSpan>& spans() const { return spans_; }

  void forward(int, const Tensor*, const Tensor*) override { Sleep(forward_); }
  void backward(int, const Tensor*, const Tensor*, const Tensor*) override { Sleep(kBackwardByForward * forward_); }

 private:
  void Sleep(std::chrono::milliseconds duration) {
    const double start = Now();
    std::this_thread::sleep_for(duration);
    spans_.push_back({start, Now()});
  }

  std::chrono::milliseconds forward_;
  std::vector<PipelineSpan> spans_;
};

// All stages' spans of one batch. Processes of one machine share their clock.
PipelineTimeline Measure(ProcessGroup& group, PipelineParallel& pipeline, const PipelineSchedule& schedule,
                         std::chrono::milliseconds forward) {
  SleepingStage step(forward);
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

struct Cell {
  PipelineSchedule schedule;
  std::vector<double> bubbles = {};  // of each batch

  double median() {
    std::ranges::sort(bubbles);
    return bubbles[bubbles.size() / 2];
  }
};

void Print(Cell& cell) {
  const int stages = cell.schedule.stages, microbatches = cell.schedule.microbatches;
  const double measured = cell.median(), ideal = ideal_bubble_fraction(stages, microbatches);
  std::printf("| %d | %d | %s | %.4f | %.4f | %+.1f %% |\n", stages, microbatches, cell.schedule.name.c_str(), measured,
              ideal, 100 * (measured / ideal - 1));
}

// What one of `stages` processes does; the first one prints.
void RunStage(int stage, int stages, const tuttiUniqueId& id, std::chrono::milliseconds forward) {
  tuttiComm_t comm = nullptr;
  check(tuttiCommInitRank(&comm, stages, id, stage));
  const std::unique_ptr<tuttiComm, decltype(&tuttiCommDestroy)> owner(comm, tuttiCommDestroy);
  ProcessGroup group(comm);
  PipelineParallel pipeline(group, stage == 0 ? std::nullopt : std::optional(kActivation),
                            stage == stages - 1 ? std::nullopt : std::optional(kActivation));
  std::vector<Cell> cells;
  for (const int microbatches : {4, 8, 16}) {
    for (const char* name : {"GPipe", "1F1B"}) cells.push_back({get_schedule(name, stages, microbatches)});
  }
  // One batch of each in turn, so that what else the machine does meets them all.
  for (int batch = 0; batch < kBatches; ++batch) {
    for (auto& cell : cells) {
      cell.bubbles.push_back(Measure(group, pipeline, cell.schedule, forward).bubble_fraction());
    }
  }
  if (stage == 0) std::ranges::for_each(cells, Print);
}

// In a process of its own. The first stage makes the id, and writes it into the pipe for each of the others.
int StageProcess(int stage, int stages, const std::array<int, 2>& pipe, std::chrono::milliseconds forward) {
  try {
    tuttiUniqueId id{};
    constexpr auto kSize = static_cast<ssize_t>(sizeof id);
    if (stage == 0) check(tuttiGetUniqueId(&id));
    for (int other = 1; stage == 0 && other < stages; ++other) {
      if (write(pipe[1], &id, sizeof id) != kSize) throw Error(tuttiSystemError, "the id could not be written");
    }
    close(pipe[1]);  // so that nobody waits for an id that cannot come
    if (stage != 0 && read(pipe[0], &id, sizeof id) != kSize) throw Error(tuttiSystemError, "no id came");
    RunStage(stage, stages, id, forward);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "stage %d: %s\n", stage, error.what());
    return 1;
  }
}

int MeasurePipelineOf(int stages, std::chrono::milliseconds forward) {
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0) return std::perror("pipe"), 1;
  for (int stage = 0; stage < stages; ++stage) {
    const pid_t child = fork();
    if (child < 0) return std::perror("fork"), 1;
    if (child == 0) std::exit(StageProcess(stage, stages, pipe, forward));
  }
  for (const int end : pipe) close(end);
  int failures = 0, status = 0;
  while (wait(&status) > 0) failures += status == 0 ? 0 : 1;
  return failures == 0 ? 0 : 1;
}

int MeasureAll(std::chrono::milliseconds forward) {
  std::printf("| p | m | schedule | bubble measured | (p-1)/(m+p-1) | difference |\n|---|---|---|---|---|---|\n");
  std::fflush(stdout);  // else every child would print it, too
  for (const int stages : {2, 4}) {
    if (const int status = MeasurePipelineOf(stages, forward); status != 0) return status;
  }
  return 0;
}

int Chart(const std::string& how, const char* name, const char* stages, const char* microbatches) {
  const auto schedule = get_schedule(name, std::atoi(stages), std::atoi(microbatches));
  const auto timeline = pipeline_simulate(schedule, PipelineDurations::uniform(schedule.stages, 1, kBackwardByForward));
  const auto chart = how == "draw" ? draw(schedule, timeline) : draw_text(schedule, timeline);
  std::fputs(chart.c_str(), stdout);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    if (arguments.size() <= 1) {
      const int milliseconds = std::atoi(arguments.empty() ? kUsualMilliseconds : argv[1]);
      if (milliseconds > 0) return MeasureAll(std::chrono::milliseconds(milliseconds));
    }
    if (arguments.size() == 4 && (arguments[0] == "draw" || arguments[0] == "show")) {
      return Chart(arguments[0], argv[2], argv[3], argv[4]);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  std::fprintf(stderr, "usage: %s [MILLISECONDS | draw|show GPipe|1F1B STAGES MICROBATCHES]\n", argv[0]);
  return 2;
}
