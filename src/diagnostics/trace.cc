#include "src/diagnostics/trace.h"

#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "algorithms/builders/records.h"
#include "base/files/files.h"
#include "base/files/json.h"
#include "base/log.h"
#include "src/plan/operation.h"

namespace tutti::diagnostics {
namespace {

// 48 bytes each; a trace viewer is slow with more.
constexpr std::size_t kMaxEvents = 1'000'000;

}  // namespace

std::string ExpandPath(const std::string& path, int rank) {
  std::string expanded;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const char next = path[i] == '%' && i + 1 < path.size() ? path[i + 1] : '\0';
    if (next == 'r' || next == 'p') {
      expanded += std::to_string(next == 'r' ? rank : getpid());
      ++i;
    } else {
      expanded += path[i];
    }
  }
  return expanded;
}

Trace::Trace(const std::string& path, int rank, const std::string& communicator)
    : path_(ExpandPath(path, rank)), rank_(rank), communicator_(communicator.empty() ? "communicator" : communicator) {}

Trace::~Trace() {
  try {
    Write();
  } catch (const std::exception& exception) {
    LogLine(Subject::faults, fmt::format("the trace was not written: {}", exception.what()));
  }
}

void Trace::Add(std::uint64_t call, std::uint64_t count, std::uint64_t sequence, tuttiAlgorithm_t algorithm,
                std::int64_t from, std::int64_t to) {
  if (events_.size() < kMaxEvents) {
    events_.push_back({call, count, sequence, algorithm, from, to});
  } else {
    ++dropped_;
  }
}

void Trace::Write() const {
  const TickScale scale = calendar_.Scale();
  auto events = nlohmann::ordered_json::array();
  events.push_back(
      {{"ph", "M"}, {"name", "process_name"}, {"pid", rank_}, {"args", {{"name", fmt::format("rank {}", rank_)}}}});
  events.push_back(
      {{"ph", "M"}, {"name", "thread_name"}, {"pid", rank_}, {"tid", 0}, {"args", {{"name", communicator_}}}});
  for (const auto& event : events_) {
    const auto text = plan::DescribeCall(event.call, event.count);
    events.push_back(
        {{"ph", "X"},
         {"cat", "tutti"},
         {"name", text.substr(0, text.find('('))},
         {"pid", rank_},
         {"tid", 0},
         {"ts", scale.At(event.from)},
         {"dur", scale.At(event.to) - scale.At(event.from)},
         {"args", {{"call", text}, {"sequence", event.sequence}, {"algorithm", builders::NameOf(event.algorithm)}}}});
  }
  WriteFile(path_,
            JsonText(nlohmann::ordered_json{{"traceEvents", std::move(events)}, {"dropped", dropped_}}, kOneLine));
}

}  // namespace tutti::diagnostics
