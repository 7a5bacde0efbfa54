// What a communicator tells people and tools: its counters, its last operation, and its records.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "algorithms/builders/records.h"
#include "base/files/files.h"
#include "base/log.h"
#include "src/communicator/communicator.h"
#include "src/diagnostics/dump.h"
#include "src/plan/planning.h"

namespace tutti::comm {

void Communicator::DumpRecorder() const {
  const auto& settings = options_.settings;
  if (!settings.dump.empty()) {
    try {
      WriteDump(settings.dump);
    } catch (const std::exception& exception) {
      LogLine(Subject::faults, exception.what());  // the failure itself matters more
    }
  } else if (settings.recorder != 0) {
    const auto text = DumpRecords();
    std::fwrite(text.data(), 1, text.size(), stderr);
  }
}

void Communicator::WriteDump(const std::string& path) const {
  WriteFile(diagnostics::ExpandPath(path, rank()), diagnostics::DumpOf({.communicator = identity_,
                                                                        .name = options_.name,
                                                                        .rank = rank(),
                                                                        .roster = control_plane_->roster(),
                                                                        .failure = failure(),
                                                                        .waits_for = host_->waits_for(),
                                                                        .scale = calendar_.Scale()},
                                                                       host_->control()));
}

void Communicator::ReadCounters(tuttiCounters_t& counters) {
  tuttiCounters_t now{};
  host_->AddCounters(now);
  if (device_ != nullptr) device_->plans().AddTraffic(now);
  const auto size = counters.size;
  std::memcpy(&counters, &now, std::min(size, sizeof now));
  counters.size = size;
}

double Communicator::EstimatedMicroseconds(const plan::Operation& asked, bool on_device) const {
  if (!asked.collective_call() || size() == 1) return 0;
  const plan::Operation operation = plan::Scheduled(asked);
  const cost_model::Kind kind = plan::KindOf(operation);
  const std::size_t bytes = plan::LargestBlockBytes(operation);
  return on_device ? device_->plans().Microseconds(system_, kind, bytes) : host_->selector().Microseconds(kind, bytes);
}

std::string Communicator::DescribeLast() const {
  const auto last = host_->operations().last();
  const auto plan = last.on_device ? device_->plans().last() : last.plan;
  if (!plan) return "";
  return fmt::format("{}{}: {}, {} channels, chunk {} B, {}; {} ranks ({})", plan::DescribeCall(last.call, last.count),
                     last.on_device ? " on the GPU" : "", builders::NameOf(plan->choice.candidate.algorithm),
                     plan->channels, plan->config.chunk_bytes, schedule::DescribeSlots(plan->config), size(),
                     plan->choice.reason);
}

std::string Communicator::DumpRecords() const {
  std::string text;
  for (int r = 0; r < size(); ++r) {
    text += fmt::format("{}:\n", host_->failure_detector().Who(r));
    for (const auto& record : diagnostics::ReadRecords(host_->control(r))) {
      text += fmt::format("  #{} operation {}: {}{}\n", record.index, record.sequence, record.Describe(),
                          !record.done() ? "  <- not finished" : "");
    }
  }
  return text;
}

}  // namespace tutti::comm
