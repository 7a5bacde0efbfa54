#include "tutti/parallel/pipeline_draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

namespace tutti::parallel {
namespace {

// In points.
constexpr double kBoxWidth = 22;  // of the shortest action
constexpr double kBoxHeight = 24;
constexpr double kRowHeight = 30;
constexpr double kLeft = 76;
constexpr double kTop = 66;
constexpr double kChartGap = 50;  // from the last row of a chart to the first one of the next
constexpr double kMargin = 24;
constexpr double kLeastWidth = 560;  // of the caption
constexpr double kMostWidth = 4000;  // where one action is very short

// A pass's look; `later` is for all chunks but a stage's first one, as Megatron-LM's figure shades them.
struct Look {
  std::string_view meaning;
  char letter;
  std::string_view colour, later;
};
const Look& LookOf(PipelinePass pass) {
  static constexpr std::array<Look, 4> kLooks{Look{"forward", 'F', "#9cc3ea", "#cbdff5"},
                                              Look{"backward", 'B', "#a9dbab", "#d5efd6"},
                                              Look{"backward for the input", 'B', "#a9dbab", "#d5efd6"},
                                              Look{"backward for the weights", 'W', "#f2c078", "#fae4c4"}};
  return kLooks[static_cast<std::size_t>(pass)];
}
constexpr std::string_view kIdle = "#eef0f2";
constexpr std::string_view kEdge = "#52606d";
constexpr std::string_view kInk = "#1f2933";

// Visits every action with its span.
template <typename Visit>
void ForEach(const PipelineSchedule& schedule, const PipelineTimeline& timeline, const Visit& visit) {
  for (std::size_t stage = 0; stage < timeline.spans.size(); ++stage) {
    for (std::size_t place = 0; place < timeline.spans[stage].size(); ++place) {
      visit(stage, schedule.actions[stage][place], timeline.spans[stage][place]);
    }
  }
}

// The time of the shortest action, of those that take any.
double ShortestAction(const PipelineSchedule& schedule, const PipelineTimeline& timeline) {
  double shortest = std::numeric_limits<double>::infinity();
  ForEach(schedule, timeline, [&](std::size_t, const PipelineAction&, const PipelineSpan& span) {
    if (span.end > span.start) shortest = std::min(shortest, span.end - span.start);
  });
  return std::isfinite(shortest) ? shortest : 1;
}

double FirstStart(const PipelineTimeline& timeline) {
  double first = std::numeric_limits<double>::infinity();
  for (const auto& stage : timeline.spans) {
    if (!stage.empty()) first = std::min(first, stage.front().start);
  }
  return first;
}

// F and B, W; f, b and w in a stage's later chunks.
char LetterOf(const PipelineAction& action) {
  const char letter = LookOf(action.pass).letter;
  return action.chunk == 0 ? letter : static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
}

std::string Caption(const PipelineSchedule& schedule, const PipelineTimeline& timeline) {
  const auto chunks = schedule.chunks == 1 ? "" : fmt::format(" of {} chunks", schedule.chunks);
  return fmt::format("{}: {} stages{}, {} microbatches, bubble {:.1f} %", schedule.name, schedule.stages, chunks,
                     schedule.microbatches, 100 * timeline.bubble_fraction());
}

class Page {
 public:
  void Rectangle(double x, double y, double width, double height, std::string_view fill, std::string_view edge) {
    fmt::format_to(std::back_inserter(shapes_),
                   "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\" stroke=\"{}\"/>\n",
                   x, y, width, height, fill, edge);
  }
  void Text(double x, double y, std::string_view anchor, int size, const std::string& text) {
    fmt::format_to(std::back_inserter(shapes_), R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}" font-size="{}">)", x, y,
                   anchor, size);
    for (const char letter : text) {
      if (letter == '<' || letter == '&') {
        shapes_ += letter == '<' ? "&lt;" : "&amp;";
      } else {
        shapes_ += letter;
      }
    }
    shapes_ += "</text>\n";
  }
  std::string Document(double width, double height) const {
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
        "{1:.0f}\" font-family=\"Helvetica, Arial, DejaVu Sans, sans-serif\" fill=\"{2}\">\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{3}</svg>\n",
        width, height, kInk, shapes_);
  }

 private:
  std::string shapes_;
};

// A legend of what the charts have.
void DrawLegend(Page& page, const std::vector<PipelineChart>& charts, double top) {
  std::set<PipelinePass> passes;
  bool has_chunks = false;
  for (const auto& chart : charts) {
    has_chunks = has_chunks || chart.schedule.chunks > 1;
    ForEach(chart.schedule, chart.timeline,
            [&](std::size_t, const PipelineAction& action, const PipelineSpan&) { passes.insert(action.pass); });
  }
  std::vector<std::pair<std::string_view, std::string>> entries;
  for (const auto pass : passes) {
    const auto& look = LookOf(pass);
    // The legend names both halves of a backward only where there are halves; a whole one has the colour of the first.
    const bool is_second_green = pass == PipelinePass::backward_input && passes.contains(PipelinePass::backward);
    if (is_second_green) {
      entries.back().second = "backward, or for the input alone";
    } else {
      entries.emplace_back(look.colour, look.meaning);
    }
  }
  entries.emplace_back(kIdle, "idle");
  double x = kLeft;
  constexpr double kSwatch = 14, kLetter = 5.6, kBetween = 24;
  for (const auto& [colour, meaning] : entries) {
    page.Rectangle(x, top, kSwatch, kSwatch, colour, kEdge);
    page.Text(x + kSwatch + 6, top + 11, "start", 11, meaning);
    x += kSwatch + 6 + kLetter * static_cast<double>(meaning.size()) + kBetween;
  }
  page.Text(x, top + 11, "start", 11,
            std::string("numbers: microbatches; time to the right") +
                (has_chunks ? "; lighter: a stage's later chunks" : ""));
}

// Draws a chart with its first row at `top`; a unit of time is `scale` wide.
void DrawChart(Page& page, const PipelineChart& chart, double top, double scale) {
  const auto& [schedule, timeline] = chart;
  const double first = FirstStart(timeline), width = timeline.makespan() * scale;
  const auto top_of = [&](std::size_t stage) { return top + static_cast<double>(stage) * kRowHeight; };
  for (std::size_t stage = 0; stage < timeline.spans.size(); ++stage) {
    page.Text(kLeft - 10, top_of(stage) + kBoxHeight / 2 + 4, "end", 12, fmt::format("stage {}", stage));
    page.Rectangle(kLeft, top_of(stage), width, kBoxHeight, kIdle, kEdge);
  }
  ForEach(schedule, timeline, [&](std::size_t stage, const PipelineAction& action, const PipelineSpan& span) {
    const double x = kLeft + (span.start - first) * scale, box = (span.end - span.start) * scale;
    const auto& look = LookOf(action.pass);
    page.Rectangle(x, top_of(stage), box, kBoxHeight, action.chunk == 0 ? look.colour : look.later, kEdge);
    page.Text(x + box / 2, top_of(stage) + kBoxHeight / 2 + 4, "middle", 11, fmt::format("{}", action.microbatch));
  });
}

}  // namespace

std::string draw(const std::vector<PipelineChart>& charts) {
  double longest = 0, shortest_action = std::numeric_limits<double>::infinity();
  for (const auto& [schedule, timeline] : charts) {
    longest = std::max(longest, timeline.makespan());
    shortest_action = std::min(shortest_action, ShortestAction(schedule, timeline));
  }
  const double width = std::min(longest / shortest_action * kBoxWidth, kMostWidth);
  const double scale = longest > 0 ? width / longest : 0;
  Page page;
  // One chart's legend is below its caption; that of several charts is above them all.
  const bool is_alone = charts.size() == 1;
  DrawLegend(page, charts, is_alone ? 38 : 10);
  double top = kTop, bottom = kTop;
  for (const auto& chart : charts) {
    page.Text(kMargin, is_alone ? 24 : top - 10, "start", 14, Caption(chart.schedule, chart.timeline));
    DrawChart(page, chart, top, scale);
    bottom = top + static_cast<double>(chart.timeline.spans.size()) * kRowHeight;
    top = bottom + kChartGap;
  }
  return page.Document(std::max(kLeft + width + kMargin, kLeastWidth), bottom + kMargin / 2);
}

std::string draw(const PipelineSchedule& schedule, const PipelineTimeline& timeline) {
  return draw(std::vector<PipelineChart>{{schedule, timeline}});
}

std::string draw_text(const PipelineSchedule& schedule, const PipelineTimeline& timeline) {
  // A box needs its letter, its number and its right edge.
  const auto least = static_cast<double>(fmt::format("F{}|", schedule.microbatches - 1).size());
  const double scale = least / ShortestAction(schedule, timeline), first = FirstStart(timeline);
  const auto column = [&](double time) { return static_cast<std::size_t>(std::lround((time - first) * scale)); };
  std::vector<std::string> rows(timeline.spans.size(), std::string(column(first + timeline.makespan()), '.'));
  ForEach(schedule, timeline, [&](std::size_t stage, const PipelineAction& action, const PipelineSpan& span) {
    const auto place = column(span.start), end = column(span.end);
    if (end <= place) return;
    auto box = fmt::format("{}{}", LetterOf(action), action.microbatch);
    box.resize(end - place, ' ');
    box.back() = '|';
    rows[stage].replace(place, box.size(), box);
  });
  std::string text = Caption(schedule, timeline) + '\n';
  for (std::size_t stage = 0; stage < rows.size(); ++stage) text += fmt::format("stage {} |{}\n", stage, rows[stage]);
  return text;
}

}  // namespace tutti::parallel
