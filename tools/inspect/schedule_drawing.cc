#include "tools/inspect/schedule_drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <vector>

#include "algorithms/schedule/ways.h"
#include "base/report/svg.h"

namespace tutti::tools {

using report::Anchor;
using report::Box;
using report::Point;
using report::Svg;
using report::TextStyle;
namespace {

// In points.
constexpr double kLaneWidth = 34;
constexpr double kRankGap = 30;
constexpr double kRowHeight = 30;
constexpr double kStepHeight = 16;
constexpr double kStepWidth = 28;
constexpr double kTop = 84;
constexpr double kMargin = 24;
constexpr double kLeastWidth = 480;  // of the caption

constexpr std::string_view kMoves = "#cfe3f7";
constexpr std::string_view kAdds = "#fbdca5";
constexpr std::string_view kFinishes = "#bfe5c0";
constexpr std::string_view kEdge = "#52606d";

struct Placed {
  int rank;
  int lane;
  int time;
  const schedule::Step* step;
};

struct Arrow {
  std::size_t from, to;  // of `steps`
};

// Computes when every step begins.
class Timetable {
 public:
  Timetable(std::span<const schedule::Schedule> ranks, int channel) {
    for (const schedule::Schedule& schedule : ranks) {
      for (const schedule::Lane& lane : schedule.channels[channel].lanes)
        done_.push_back({&schedule, &lane, Lanes(schedule.rank), {}});
    }
    for (bool moved = true; moved;) {
      moved = false;
      for (auto& actor : done_) {
        while (actor.done.size() < actor.lane->steps.size() && TryNext(actor)) moved = true;
      }
    }
    for (const auto& actor : done_) never_ += static_cast<int>(actor.lane->steps.size() - actor.done.size());
  }

  const std::vector<Placed>& steps() const { return steps_; }
  const std::vector<Arrow>& arrows() const { return arrows_; }
  int never() const { return never_; }

 private:
  struct Actor {
    const schedule::Schedule* schedule;
    const schedule::Lane* lane;
    int index;                      // of the rank's lanes
    std::vector<std::size_t> done;  // of steps_, by step
  };
  int Lanes(int rank) { return lanes_[rank]++; }

  bool TryNext(Actor& actor) {
    const schedule::Step& step = actor.lane->steps[actor.done.size()];
    const int rank = actor.schedule->rank;
    int time = actor.done.empty() ? 0 : steps_[actor.done.back()].time + 1;
    for (const schedule::After& after : step.after) {
      const auto& other = *std::ranges::find_if(
          done_, [&](const Actor& each) { return each.schedule == actor.schedule && each.index == after.lane; });
      if (std::ssize(other.done) <= after.step) return false;
      time = std::max(time, steps_[other.done[after.step]].time + 1);
    }
    bool filled = true;
    for (const schedule::Operand& read : step.reads) {
      schedule::EachWayRead(*actor.schedule, read, [&](const schedule::Way& name) {
        const auto& way = ways_[name];
        if (way.empty()) {
          filled = false;
        } else {
          time = std::max(time, steps_[way.front()].time + 1);
        }
      });
    }
    if (!filled) return false;
    const std::size_t place = steps_.size();
    steps_.push_back({rank, actor.index, time, &step});
    actor.done.push_back(place);
    for (const schedule::Operand& read : step.reads) {
      schedule::EachWayRead(*actor.schedule, read, [&](const schedule::Way& name) {
        auto& way = ways_[name];
        arrows_.push_back({way.front(), place});
        way.pop_front();
      });
    }
    for (const schedule::Operand& write : step.writes) {
      schedule::EachWayWritten(*actor.schedule, write,
                               [&](const schedule::Way& name) { ways_[name].push_back(place); });
    }
    return true;
  }

  std::map<int, int> lanes_;
  std::vector<Actor> done_;
  // By way, one for each reader.
  std::map<schedule::Way, std::deque<std::size_t>> ways_;
  std::vector<Placed> steps_;
  std::vector<Arrow> arrows_;
  int never_ = 0;
};

class Drawing {
 public:
  Drawing(std::span<const schedule::Schedule> ranks, int channel) {
    double x = kMargin;
    for (const schedule::Schedule& schedule : ranks) {
      left_.push_back(x);
      const auto lanes = std::max<std::size_t>(1, schedule.channels[channel].lanes.size());
      x += static_cast<double>(lanes) * kLaneWidth + kRankGap;
    }
    right_ = x - kRankGap;
  }

  void Columns(int rows) {
    const TextStyle title{.size = 12, .bold = true};
    for (std::size_t r = 0; r < left_.size(); ++r) {
      const double end = (r + 1 < left_.size() ? left_[r + 1] : right_ + kRankGap) - kRankGap;
      svg_.Rectangle({left_[r], kTop - 26, end - left_[r], rows * kRowHeight + 30}, "#f7f9fb", "#dde3ea");
      svg_.Text({(left_[r] + end) / 2, kTop - 13}, fmt::format("{}", r), title);
    }
  }

  Box BoxOf(const Placed& placed) const {
    return {left_[placed.rank] + placed.lane * kLaneWidth + (kLaneWidth - kStepWidth) / 2,
            kTop + placed.time * kRowHeight, kStepWidth, kStepHeight};
  }

  void Draw(const Placed& placed) {
    const Box box = BoxOf(placed);
    const auto& reads = placed.step->reads;
    const bool adds = reads.size() > 1 || reads.front().kind == schedule::OperandKind::sum;
    svg_.Rectangle(box, placed.step->final ? kFinishes : adds ? kAdds : kMoves, kEdge);
    svg_.Text(box.center(), fmt::format("{}", placed.step->block), {.size = 10});
  }

  void DrawArrow(const Placed& from, const Placed& to) {
    // Colours vary by the slot's origin, so that neighbours differ.
    constexpr std::array<std::string_view, 6> kColors = {"#2f6db5", "#b5532f", "#3d8b40",
                                                         "#7d4fb0", "#a8841c", "#2c8f93"};
    const Box start = BoxOf(from);
    const Box end = BoxOf(to);
    const Point a{start.center().x, start.bottom()};
    const Point b{end.center().x, end.y};
    const double bend = (b.y - a.y) / 2;
    svg_.Curve(a, {a.x, a.y + bend}, {b.x, b.y - bend}, b, kColors[from.rank % kColors.size()], 1.1, true);
  }

  std::string Document(const std::string& title, int rows) {
    svg_.Text({kMargin, 20}, title, {.size = 14, .anchor = Anchor::start, .bold = true});
    double x = kMargin;
    for (const auto& [color, meaning] : {std::pair{kMoves, "moves a block"}, std::pair{kAdds, "adds to it"},
                                         std::pair{kFinishes, "completes the result"}}) {
      svg_.Rectangle({x, 34, 12, 12}, color, kEdge);
      svg_.Text({x + 18, 40}, meaning, {.size = 10, .anchor = Anchor::start});
      x += 130;
    }
    return svg_.Document(std::max(right_ + kMargin, kLeastWidth), kTop + rows * kRowHeight + kMargin);
  }

 private:
  Svg svg_;
  std::vector<double> left_;  // of each rank's column
  double right_ = 0;
};

}  // namespace

std::string DrawSchedules(std::span<const schedule::Schedule> ranks, int channel, const std::string& name) {
  const Timetable timetable(ranks, channel);
  int rows = 0;
  for (const Placed& placed : timetable.steps()) rows = std::max(rows, placed.time + 1);
  Drawing drawing(ranks, channel);
  drawing.Columns(rows);
  for (const Arrow& arrow : timetable.arrows()) {
    drawing.DrawArrow(timetable.steps()[arrow.from], timetable.steps()[arrow.to]);
  }
  for (const Placed& placed : timetable.steps()) drawing.Draw(placed);
  std::string title = fmt::format("{} by {}, {} ranks, channel {}", schedule::NameOf(ranks.front().collective), name,
                                  ranks.size(), channel);
  if (timetable.never() > 0) title += fmt::format("; {} steps wait forever", timetable.never());
  return drawing.Document(title, rows);
}

}  // namespace tutti::tools
