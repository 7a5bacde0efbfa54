// Pipelines of stages that only sleep: measures their idle time against the papers' formulas, and draws the charts of
// the schedules.
//   pipeline [MILLISECONDS]                                  measures with forwards of that length (20), prints a table
//   pipeline draw|show SCHEDULE STAGES MICROBATCHES [CHUNKS] the chart as SVG, or for a terminal
//   pipeline draw all STAGES MICROBATCHES CHUNKS             of all schedules, one below the other
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
constexpr int kBatches = 7;            // the median is reported
constexpr int kChunks = 2;             // per stage, where a schedule interleaves them
constexpr std::array<const char*, 4> kMeasured{"GPipe", "1F1B", "Interleaved1F1B", "ZB-H1"};
constexpr std::array<const char*, 5> kDrawn{"GPipe", "1F1B", "Interleaved1F1B", "ZB-H1", "ZB-V"};
constexpr const char* kUsualMilliseconds = "20";
const TensorSpec kActivation{{64, 256}, tuttiFloat32};

double Now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

int ChunksOf(const std::string& schedule, int chunks) {
  return schedule == "Interleaved1F1B" ? chunks : schedule == "ZB-V" ? 2 : 1;
}

// A stage (or one of its chunks) that computes nothing, and records when. Both parts of a backward take equally long.
class SleepingStage : public SplitBackwardStep {
 public:
  explicit SleepingStage(std::chrono::microseconds forward) : forward_(forward) {}
  const std::vector<PipelineSpan>& spans() const { return spans_; }

  void forward(int, const Tensor*, const Tensor*) override { Sleep(forward_); }
  void backward(int, const Tensor*, const Tensor*, const Tensor*) override { Sleep(kBackwardByForward * forward_); }
  void backward_input(int, const Tensor*, const Tensor*, const Tensor*) override {
    Sleep(kBackwardByForward * forward_ / 2);
  }
  void backward_weight(int, const Tensor*, const Tensor*) override { Sleep(kBackwardByForward * forward_ / 2); }

 private:
  void Sleep(std::chrono::microseconds duration) {
    const double start = Now();
    std::this_thread::sleep_for(duration);
    spans_.push_back({start, Now()});
  }

  std::chrono::microseconds forward_;
  std::vector<PipelineSpan> spans_;
};

// All stages' spans of one batch. Processes of one machine share their clock.
PipelineTimeline Measure(ProcessGroup& group, PipelineParallel& pipeline, const PipelineSchedule& schedule,
                         std::chrono::milliseconds forward) {
  // A chunk is a part of a stage. One step stands for all chunks, because it has no content.
  SleepingStage step(std::chrono::microseconds(forward) / schedule.chunks);
  pipeline.run(schedule, std::vector<PipelineStep*>(static_cast<std::size_t>(schedule.chunks), &step));
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

double Formula(const PipelineSchedule& schedule) {
  constexpr double kHalfBackward = kBackwardByForward / 2.0;
  if (schedule.name != "ZB-H1") return ideal_bubble_fraction(schedule.stages, schedule.microbatches, schedule.chunks);
  return zero_bubble_h1_fraction(schedule.stages, schedule.microbatches, 1, kHalfBackward, kHalfBackward);
}

void Print(Cell& cell) {
  const int stages = cell.schedule.stages, microbatches = cell.schedule.microbatches;
  const double measured = cell.median(), ideal = Formula(cell.schedule);
  std::printf("| %d | %d | %s | %.4f | %.4f | %+.1f %% |\n", stages, microbatches, cell.schedule.name.c_str(), measured,
              ideal, 100 * (measured / ideal - 1));
}

// The work of one of `stages` processes; the first one prints.
void RunStage(int stage, int stages, const tuttiUniqueId& id, std::chrono::milliseconds forward) {
  tuttiComm_t comm = nullptr;
  check(tuttiCommInitRank(&comm, stages, id, stage));
  const std::unique_ptr<tuttiComm, decltype(&tuttiCommDestroy)> owner(comm, tuttiCommDestroy);
  ProcessGroup group(comm);
  const auto ends_of = [&](int chunks) {
    std::vector<PipelineEnds> ends(static_cast<std::size_t>(chunks), PipelineEnds{kActivation, kActivation});
    if (stage == 0) ends.front().input.reset();
    if (stage == stages - 1) ends.back().output.reset();
    return ends;
  };
  PipelineParallel whole(group, ends_of(1)), interleaved(group, ends_of(kChunks));
  std::vector<Cell> cells;
  for (const int microbatches : {4, 8, 16}) {
    for (const char* name : kMeasured) {
      cells.push_back({get_schedule(name, stages, microbatches, ChunksOf(name, kChunks))});
    }
  }
  // Runs one batch of each in turn, so that other load on the machine affects all alike.
  for (int batch = 0; batch < kBatches; ++batch) {
    for (auto& cell : cells) {
      auto& pipeline = cell.schedule.chunks == 1 ? whole : interleaved;
      cell.bubbles.push_back(Measure(group, pipeline, cell.schedule, forward).bubble_fraction());
    }
  }
  if (stage == 0) std::ranges::for_each(cells, Print);
}

// Runs in a separate process. The first stage makes the id, and writes it into the pipe for each of the others.
int StageProcess(int stage, int stages, const std::array<int, 2>& pipe, std::chrono::milliseconds forward) {
  try {
    tuttiUniqueId id{};
    constexpr auto kSize = static_cast<ssize_t>(sizeof id);
    if (stage == 0) check(tuttiGetUniqueId(&id));
    for (int other = 1; stage == 0 && other < stages; ++other) {
      if (write(pipe[1], &id, sizeof id) != kSize) throw Error(tuttiSystemError, "the id could not be written");
    }
    close(pipe[1]);  // so that no stage waits for an id that cannot come
    if (stage != 0 && read(pipe[0], &id, sizeof id) != kSize)
      throw Error(tuttiSystemError, "the unique id did not arrive");
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
  std::printf("| p | m | schedule | bubble measured | by the formula | difference |\n|---|---|---|---|---|---|\n");
  std::fflush(stdout);  // otherwise every child would print it, too
  for (const int stages : {2, 4}) {
    if (const int status = MeasurePipelineOf(stages, forward); status != 0) return status;
  }
  return 0;
}

// The schedules of docs/parallel_pipeline.md, with one stage's forward as the unit of time.
int DrawAll(int stages, int microbatches, int chunks) {
  std::vector<PipelineChart> charts;
  for (const char* name : kDrawn) {
    const auto schedule = get_schedule(name, stages, microbatches, ChunksOf(name, chunks));
    const double forward = 1.0 / schedule.chunks;
    charts.push_back({schedule, pipeline_simulate(schedule, PipelineDurations::uniform(stages, forward,
                                                                                       kBackwardByForward * forward))});
  }
  std::fputs(draw(charts).c_str(), stdout);
  return 0;
}

int Chart(const std::string& how, const std::string& name, int stages, int microbatches, std::optional<int> chunks) {
  if (name == "all") return DrawAll(stages, microbatches, chunks.value_or(kChunks));
  const auto schedule = get_schedule(name, stages, microbatches, chunks);
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
    const bool is_chart = (arguments.size() == 4 || arguments.size() == 5) &&
                          (arguments[0] == "draw" || (arguments[0] == "show" && arguments[1] != "all"));
    if (is_chart) {
      return Chart(arguments[0], arguments[1], std::atoi(argv[3]), std::atoi(argv[4]),
                   argc > 5 ? std::optional(std::atoi(argv[5])) : std::nullopt);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  std::fprintf(stderr, "usage: %s [MILLISECONDS | draw|show SCHEDULE|all STAGES MICROBATCHES [CHUNKS]]\n", argv[0]);
  return 2;
}
