#include "tutti/parallel/pipeline_draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string_view>

namespace tutti::parallel {
namespace {

// In points.
constexpr double kBoxWidth = 22;  // of the shortest action
constexpr double kBoxHeight = 24;
constexpr double kRowHeight = 30;
constexpr double kLeft = 76;
constexpr double kTop = 66;
constexpr double kMargin = 24;
constexpr double kLeastWidth = 560;  // of the caption
constexpr double kMostWidth = 4000;  // where one action is very short

constexpr std::string_view kForward = "#9cc3ea";
constexpr std::string_view kBackward = "#bfe5c0";
constexpr std::string_view kIdle = "#e4e7eb";
constexpr std::string_view kEdge = "#52606d";
constexpr std::string_view kInk = "#1f2933";

// Every action with its span.
template <typename Visit>
void ForEach(const PipelineSchedule& schedule, const PipelineTimeline& timeline, const Visit& visit) {
  for (std::size_t stage = 0; stage < timeline.spans.size(); ++stage) {
    for (std::size_t place = 0; place < timeline.spans[stage].size(); ++place) {
      visit(stage, schedule.actions[stage][place], timeline.spans[stage][place]);
    }
  }
}

// Of those that take time at all.
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

std::string Caption(const PipelineSchedule& schedule, const PipelineTimeline& timeline) {
  return fmt::format("{}: {} stages, {} microbatches, bubble {:.1f} %", schedule.name, schedule.stages,
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

void DrawLegend(Page& page) {
  double x = kLeft;
  for (const auto& [colour, meaning] :
       {std::pair{kForward, "forward"}, std::pair{kBackward, "backward"}, std::pair{kIdle, "idle"}}) {
    page.Rectangle(x, 38, 14, 14, colour, kEdge);
    page.Text(x + 20, 49, "start", 11, meaning);
    x += 96;
  }
  page.Text(x, 49, "start", 11, "numbers: microbatches; time to the right");
}

}  // namespace

std::string draw(const PipelineSchedule& schedule, const PipelineTimeline& timeline) {
  const double makespan = timeline.makespan(), first = FirstStart(timeline);
  const double width = std::min(makespan / ShortestAction(schedule, timeline) * kBoxWidth, kMostWidth);
  const double scale = makespan > 0 ? width / makespan : 0;
  const auto top_of = [](std::size_t stage) { return kTop + static_cast<double>(stage) * kRowHeight; };
  Page page;
  page.Text(kMargin, 24, "start", 14, Caption(schedule, timeline));
  DrawLegend(page);
  for (std::size_t stage = 0; stage < timeline.spans.size(); ++stage) {
    page.Text(kLeft - 10, top_of(stage) + kBoxHeight / 2 + 4, "end", 12, fmt::format("stage {}", stage));
    page.Rectangle(kLeft, top_of(stage), width, kBoxHeight, kIdle, kEdge);
  }
  ForEach(schedule, timeline, [&](std::size_t stage, const PipelineAction& action, const PipelineSpan& span) {
    const double x = kLeft + (span.start - first) * scale, box = (span.end - span.start) * scale;
    page.Rectangle(x, top_of(stage), box, kBoxHeight, action.pass == PipelinePass::forward ? kForward : kBackward,
                   kEdge);
    page.Text(x + box / 2, top_of(stage) + kBoxHeight / 2 + 4, "middle", 11, fmt::format("{}", action.microbatch));
  });
  return page.Document(std::max(kLeft + width + kMargin, kLeastWidth), top_of(timeline.spans.size()) + kMargin / 2);
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
    auto box = fmt::format("{}{}", action.pass == PipelinePass::forward ? 'F' : 'B', action.microbatch);
    box.resize(end - place, ' ');
    box.back() = '|';
    rows[stage].replace(place, box.size(), box);
  });
  std::string text = Caption(schedule, timeline) + '\n';
  for (std::size_t stage = 0; stage < rows.size(); ++stage) text += fmt::format("stage {} |{}\n", stage, rows[stage]);
  return text;
}

}  // namespace tutti::parallel
