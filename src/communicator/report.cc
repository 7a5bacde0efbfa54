// What a communicator tells of itself: the library on top its facts (tutti/extension.h); people and tools its counters, its
// last operation, and its records.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "algorithms/builders/records.h"
#include "base/extension.h"
#include "base/files/files.h"
#include "base/log.h"
#include "src/communicator/communicator.h"
#include "src/diagnostics/dump.h"
#include "src/memory/device_buffers.h"
#include "src/plan/planning.h"

namespace tutti::comm {
namespace {

// The first digits of the identity, which are random.
std::uint64_t NumberOf(std::string_view identity) {
  std::uint64_t number = 0;
  const auto digits = identity.substr(0, 2 * sizeof number);
  std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  return number;
}

}  // namespace

tuttiCommFacts_t FactsOf(const Options& options, int rank, int nranks) {
  tuttiCommFacts_t facts{};
  facts.size = sizeof facts;
  facts.name = options.name.c_str();
  facts.rank = rank;
  facts.nranks = nranks;
  facts.device = options.device;
  facts.busId = options.device == TUTTI_DEVICE_NONE ? 0 : memory::BusIdOf(options.device);
  facts.id = options.id;
  return facts;
}

tuttiCommFacts_t Communicator::facts() const {
  auto facts = FactsOf(options_, rank(), size());
  if (facts.id == 0) facts.id = NumberOf(identity_);
  const auto& hosts = host_->hosts();
  std::vector<int> ranks(static_cast<std::size_t>(hosts.count()));
  for (const int host : hosts.host_of) ++ranks[static_cast<std::size_t>(host)];
  const auto [fewest, most] = std::ranges::minmax(ranks);
  facts.hosts = static_cast<int>(ranks.size());
  facts.fewestRanksOfHost = fewest;
  facts.mostRanksOfHost = most;
  const bool on_gpus = device_ != nullptr;
  facts.channels = on_gpus ? device_->plans().tuning().max_channels : host_->channels();
  facts.messageChannels = on_gpus ? device_->plans().tuning().messages.channels : 1;
  facts.network = hosts.count() == 1 ? tuttiTransportSelf : host_->transport();
  return facts;
}

Observer::Observer(const tuttiCommFacts_t& facts) {
  if (auto* const observe = TheExtension().observe) observer_ = observe(&facts);
}

Observer::~Observer() {
  if (observer_ != nullptr) TheExtension().unobserve(observer_);
}

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
  const auto& failure_detector = host_->failure_detector();
  for (int r = 0; r < size(); ++r) {
    text += fmt::format("{}:\n", failure_detector.Who(r));
    for (const auto& record : diagnostics::ReadRecords(host_->control(r))) {
      text += fmt::format("  #{} operation {}: {}{}\n", record.index, record.sequence,
                          failure_detector.Describe(r, record), !record.done() ? "  <- not finished" : "");
    }
  }
  return text;
}

}  // namespace tutti::comm
