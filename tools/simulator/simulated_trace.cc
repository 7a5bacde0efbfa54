#include "tools/simulator/simulated_trace.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/files/files.h"
#include "base/files/json.h"

namespace tutti::tools {
namespace {

// Text of the steps of a rank's schedule, as in schedule.h; cached, since steps are looked up many times.
class Spelling {
 public:
  Spelling(const cost_model::Machine& machine, const simulator::SimulatedCall& call) : machine_(machine), call_(call) {}

  std::string operator()(const simulator::Timeline::Step& step) {
    auto [found, added] = schedules_.try_emplace(step.rank);
    if (added) found->second = simulator::ScheduleOf(machine_, call_, step.rank);
    return schedule::ToString(found->second.channels[step.channel].lanes[step.lane].steps[step.step]);
  }

 private:
  const cost_model::Machine& machine_;
  const simulator::SimulatedCall& call_;
  std::map<int, schedule::Schedule> schedules_;
};

nlohmann::ordered_json Named(const char* what, int process, int thread, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

nlohmann::ordered_json Span(std::string name, int process, int thread, double begin, double end,
                            nlohmann::ordered_json arguments) {
  return {{"ph", "X"},     {"cat", "simulated"}, {"name", std::move(name)}, {"pid", process},
          {"tid", thread}, {"ts", begin},        {"dur", end - begin},      {"args", std::move(arguments)}};
}

}  // namespace

void SimulatedTrace::Add(const std::string& name, const cost_model::Machine& machine,
                         const simulator::SimulatedCall& call, const simulator::Timeline& timeline) {
  const auto prefix = name.empty() ? "" : name + ": ";
  Spelling spell(machine, call);
  std::map<std::tuple<int, int, int>, int> threads;  // by rank, channel and lane
  std::map<int, int> lanes;                          // per rank, so far
  for (const simulator::Timeline::Step& step : timeline.steps) {
    if (!lanes.contains(step.rank)) {
      events_.push_back(Named("process_name", processes_ + step.rank, 0, fmt::format("{}rank {}", prefix, step.rank)));
    }
    const auto [thread, added] = threads.emplace(std::tuple(step.rank, step.channel, step.lane), lanes[step.rank]);
    if (added) {
      ++lanes[step.rank];
      events_.push_back(Named("thread_name", processes_ + step.rank, thread->second,
                              fmt::format("channel {}, lane {}", step.channel, step.lane)));
    }
    events_.push_back(Span(spell(step), processes_ + step.rank, thread->second, step.begin, step.end,
                           {{"step", step.step}, {"chunk", step.chunk}}));
  }
  // Resources come after the ranks; concurrent flows over one resource are shown side by side.
  std::map<int, std::vector<double>> free_at;  // by resource and thread
  for (const simulator::Timeline::Flow& flow : timeline.flows) {
    for (const int resource : flow.route) {
      const int process = processes_ + machine.nranks() + resource;
      auto& ends = free_at[resource];
      if (ends.empty()) {
        events_.push_back(Named(
            "process_name", process, 0,
            fmt::format("{}node {}: {}", prefix, machine.NodeOfResource(resource), machine.resource(resource).name)));
      }
      auto thread = std::find_if(ends.begin(), ends.end(), [&flow](double end) { return end <= flow.begin; });
      if (thread == ends.end()) thread = ends.insert(ends.end(), 0);
      *thread = flow.end;
      events_.push_back(Span(fmt::format("{} to {}", flow.from, flow.to), process,
                             static_cast<int>(thread - ends.begin()), flow.begin, flow.end,
                             {{"channel", flow.channel}, {"bytes", flow.bytes}}));
    }
  }
  processes_ += machine.nranks() + machine.resources();
}

void SimulatedTrace::Write(const std::string& path) {
  WriteFile(path, JsonText(nlohmann::ordered_json{{"traceEvents", std::move(events_)}}, kOneLine));
  events_ = nlohmann::ordered_json::array();
  processes_ = 0;
}

}  // namespace tutti::tools
