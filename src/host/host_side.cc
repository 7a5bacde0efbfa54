#include "src/host/host_side.h"

#include <system_error>

#include "src/init/network_probe.h"
#include "topology/detect/host.h"

namespace tutti::host_side {

HostSide::HostSide(const init::Meeting& meeting, const init::Agreement& agreement, const auth::SecretKey& key,
                   const std::vector<std::string>& nics, int channels,
                   const std::optional<cost_model::NetworkCosts>& known)
    : fabric_(meeting.rank, meeting.hosts, channels + 1, meeting.settings, meeting.all_gather, meeting.deadline),
      network_(init::ConnectHosts(meeting, init::ChooseNetwork(meeting), fabric_, key, nics,
                                  init::ProcessorsOf(meeting, agreement).crowding)),
      windows_(fabric_),
      failure_detector_(fabric_, network(), meeting.roster, meeting.name, meeting.settings.operation_timeout()),
      sleeper_(fabric_, network()),
      driver_(&sleeper_, {}) {
  if (network_.kind != nullptr) {
    network_.costs = init::AgreeOnCosts(meeting, *network_.kind, key, known, *network_.costs,
                                        init::ProcessorsOf(meeting, agreement).crowding);
  }
  fabric_.SpreadSlots(agreement.slot_span);
}

void HostSide::AddLimits(cost_model::TuningContext& tuning) const {
  tuning.max_channels = channels();
  tuning.bulk_capacity = fabric_.layout().bulk_capacity();
  tuning.cma = fabric_.cma();
  if (fabric_.cma_forced()) tuning.forced.cma = true;
}

void HostSide::Start(const init::Meeting& meeting, const init::Agreement& agreement, cost_model::TuningContext tuning,
                     const plan::Programs& programs, const plan::ExternalTuner* external, bool observed) {
  const auto& settings = meeting.settings;
  selector_.emplace(std::move(tuning), programs, init::ProcessorsOf(meeting, agreement), network_.costs, settings,
                    external, rank(), meeting.all_gather);
  ChooseWaits(settings, agreement);
  if (!settings.trace.empty()) trace_.emplace(settings.trace, rank(), meeting.name);
  operations_.emplace(
      Operations::Parts{settings, programs, fabric_, failure_detector_, windows_, trace_ ? &*trace_ : nullptr,
                        observed},
      plan::PlanContext{&*selector_, &programs, &fabric_, &windows_, channels(), network(), transport()});
}

void HostSide::ChooseWaits(const Settings& settings, const init::Agreement& agreement) {
  threads_forced_ = settings.threads != 0;
  threads_ = threads_forced_ ? settings.threads : agreement.threads_forced ? 1 : agreement.threads;
  // Threads that are not forced are those for which there are cores, and mostly sleep.
  const int busy = agreement.neighbours * (agreement.threads_forced ? agreement.threads : 1);
  wait_policy_ = host::ChooseWaitPolicy(settings.wait, busy, agreement.cores);
  stream_wait_policy_ = host::ChooseWaitPolicy(settings.wait, busy, agreement.cores, host::WhoWaits::stream);
  // Ranks that outnumber cores wait by yielding. All ask for short slices, so that beside a program that computes they
  // get the core back soon.
  if (wait_policy_.spin.count() == 0) wait_policy_.slice = std::chrono::microseconds(settings.slice_us);
  if (threads_forced_ && threads_ > 1) StartHelpers();
}

void HostSide::StartHelpers() {
  helper_threads_ = std::make_unique<host::HelperThreads>(threads_ - 1);
  helper_drivers_.assign(static_cast<std::size_t>(threads_ - 1), host::Driver(&sleeper_, {}));
}

host::HelperThreads* HostSide::HelpersOf(const Active& active) {
  if (threads_ == 1) return nullptr;
  if (threads_forced_) return active.plan->run.channels() > 1 ? helper_threads_.get() : nullptr;
  if (active.plan->choice.candidate.channels == 1) return nullptr;
  if (helper_threads_ != nullptr) return helper_threads_.get();
  // Nobody asked for them: one thread moves the data, too, where this one has been bound to fewer cores since the ranks met,
  // or the system starts no more threads.
  const bool have_cores = detect::CountCpus(detect::AllowedCpus()) >= threads_;
  try {
    if (have_cores) StartHelpers();
  } catch (const std::system_error&) {
  }
  if (helper_threads_ == nullptr) threads_ = 1;
  return helper_threads_.get();
}

void HostSide::UseTable(tuner::SelectionTable table) {
  selector_->UseTable(std::move(table));
  operations_->EndTrials();
}

std::optional<Error> HostSide::Look(const Active& active, const diagnostics::Awaited& awaited,
                                    std::chrono::steady_clock::duration waited) {
  const int first = failure_detector_.Cause(active.in_flight(), awaited);
  waits_for_.store(first, std::memory_order_relaxed);
  control().awaits.store(ring::PackAwaited(active.record, first), std::memory_order_release);
  return failure_detector_.Look(active.in_flight(), awaited, waited);
}

void HostSide::AddCounters(tuttiCounters_t& counters) const {
  operations_->AddTraffic(counters);
  const auto add = [&counters](const host::WaitCounts& counts) {
    counters.waitSpins += counts.spins;
    counters.waitYields += counts.yields;
    counters.waitSleeps += counts.sleeps;
    counters.waitLate += counts.late;
    counters.waitLostSlices += counts.lost_slices;
  };
  add(driver_.counts());
  for (const auto& driver : helper_drivers_) add(driver.counts());
}

}  // namespace tutti::host_side
