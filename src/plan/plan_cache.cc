#include "src/plan/plan_cache.h"

#include <algorithm>
#include <sstream>
#include <string>

#include "base/log.h"
#include "base/numbers/datatype.h"

namespace tutti::plan {
namespace {

// Pieces of a long message: they stay in a core's L2 together with their source.
constexpr std::size_t kMessageChunk = 128 * 1024;
// From here on a reader fetches a message from the sender's memory where the system lets it.
constexpr std::size_t kMessageWorthFetching = 32 * 1024;

schedule::ProtocolConfig MessageConfig(std::size_t bytes, const cost_model::TuningContext& tuning) {
  if (bytes <= ring::kLineShape.capacity) return {ring::Protocol::line, ring::kLineShape.capacity};
  if (bytes <= ring::kInlineShape.capacity) return {ring::Protocol::inlined, ring::kInlineShape.capacity};
  const bool cma = tuning.cma && (tuning.forced.cma.value_or(false) || bytes >= kMessageWorthFetching);
  const std::size_t chunk = tuning.forced.chunk_bytes != 0 ? tuning.forced.chunk_bytes
                            : cma                          ? tuning.bulk_capacity
                                                           : kMessageChunk;
  return {ring::Protocol::bulk,
          std::clamp(chunk, ring::kCacheLine, tuning.bulk_capacity) / ring::kCacheLine * ring::kCacheLine, cma};
}

}  // namespace

BoundPlan::BoundPlan(PlannedCall planned, const Operation& operation, const PlanContext& context)
    : KeptPlan{std::move(planned.choice), BytesUsed(planned.extents)},
      signature(0),
      plan(std::move(planned.schedule), std::move(planned.extents), planned.config, operation.type, operation.op,
           *context.fabric, planned.first_channel),
      run(plan, *context.fabric, context.network, *context.windows),
      touched(plan.footprint() * context.selector->tuning().ranks_of_a_cache()),
      cached(context.selector->tuning().stream_bytes) {}

PlanSummary BoundPlan::summary() const {
  PlanSummary summary{choice, plan.channels().size(), plan.config()};
  const auto reason = trial == nullptr ? "" : trial->Reason(tried);
  if (!reason.empty()) summary.choice.reason = reason;
  return summary;
}

bool BoundPlan::StreamsOutput(const Operation& asked) const {
  // An all-reduce in place has read what it overwrites a moment before, chunk by chunk. Those lines need not be read
  // again to be written, and most are still in the cache. Storing through the cache was faster until 2 to 8 ranks of two
  // cores touched five times the 24 MiB that they count on; from ten times on, 4 and 8 ranks were slower, 2 were not
  // (docs/notebook/performance/tried.md).
  constexpr std::size_t kInPlace = 8;
  const bool overwrites = asked.in_place && PatternOf(asked.collective).reduces_for_all();
  return touched / (overwrites ? kInPlace : 1) > cached;
}

void BoundPlan::AddBytes(tuttiTransport_t network, tuttiCounters_t& counters) const {
  // In the order of Traffic: value, pointer, window, cma, by network.
  const tuttiTransport_t transports[] = {tuttiTransportShm, tuttiTransportDirect, tuttiTransportDirect,
                                         tuttiTransportCma, network};
  const auto algorithm = static_cast<std::size_t>(choice.candidate.algorithm);
  for (std::size_t c = 0; c < run.channels(); ++c) {
    const auto traffic = run.traffic(c);
    for (std::size_t kind = 0; kind < std::size(transports); ++kind) {
      counters.bytesSent[transports[kind]][algorithm] += traffic.sent[kind];
      counters.bytesReceived[transports[kind]][algorithm] += traffic.received[kind];
    }
  }
}

BoundPlan& PlanCache::FindSlowly(const Operation& operation, std::uint64_t packed, Trial* trial) {
  auto key = KeyOf(operation, packed);
  if (trial != nullptr) key.further.push_back(trial->next());
  auto& plan = PlanTable::Find(std::move(key), [&] { return Make(operation, trial); });
  found_ = operation.plain() ? &plan : nullptr;
  found_call_ = packed;
  found_count_ = operation.count;
  return plan;
}

// Plans calls on processors.
class PlanCache::HostPlanner final : public CallPlanner {
 public:
  // `tried`: the collective's plan; null: the selector's choice.
  HostPlanner(const PlanContext& context, const cost_model::Candidate* tried) : context_(context), tried_(tried) {}

  int rank() const override { return context_.fabric->rank(); }
  const cost_model::TuningContext& tuning() const override { return context_.selector->tuning(); }
  MessagePlan PlanMessage(int, int, std::size_t bytes) const override {
    return {1, context_.collective_channels, MessageConfig(bytes, tuning())};
  }
  CollectivePlan PlanCollective(const Operation& asked, const Operation& operation, const cost_model::Kind& kind,
                                std::size_t bytes) const override {
    // A barrier borrows a collective's plan; no program is meant for it.
    if (tried_ != nullptr) return {{*tried_, "on trial"}, BuiltSchedule(operation, *tried_, tuning(), rank())};
    const ServingProgram* const serving = context_.programs->For(asked);
    if (LogEnabled(Subject::select) && rank() == 0) {
      Log(Subject::select, "{} on {} ranks:", DescribeCall(PackCall(asked), asked.count), tuning().nranks);
      std::istringstream candidates(context_.selector->Explain(kind, bytes, serving != nullptr));
      for (std::string line; std::getline(candidates, line);) Log(Subject::select, "{}", line);
    }
    if (serving != nullptr) return {context_.selector->Choose(*serving, kind, bytes), serving->own()};
    auto choice = context_.selector->Choose(asked, kind, bytes);
    auto schedule = BuiltSchedule(operation, choice.candidate, tuning(), rank());
    return {std::move(choice), std::move(schedule)};
  }

 private:
  const PlanContext& context_;
  const cost_model::Candidate* tried_;
};

std::unique_ptr<BoundPlan> PlanCache::Make(const Operation& asked, Trial* trial) const {
  const std::size_t tried = trial == nullptr ? 0 : trial->next();
  auto planned = PlanCall(asked, HostPlanner(context_, tried == 0 ? nullptr : &trial->candidate(tried)));
  const std::string described = planned.Describe(PackCall(asked), asked.count);
  const auto signature = SignatureOf(asked, planned, context_.selector->tuned() || trial != nullptr);
  auto plan = std::make_unique<BoundPlan>(std::move(planned), Scheduled(asked), context_);
  plan->signature = signature;
  plan->trial = trial;
  plan->tried = tried;
  for (const int peer : plan->plan.network_peers()) context_.network->Need(peer);
  Log(Subject::select, "rank {}: {}{}", context_.fabric->rank(), described,
      plan->StreamsOutput(asked) ? "; non-temporal stores" : "");
  return plan;
}

}  // namespace tutti::plan
