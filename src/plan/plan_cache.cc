#include "src/plan/plan_cache.h"

#include <algorithm>

#include "base/datatype.h"
#include "base/error.h"
#include "base/log.h"

namespace tutti::plan {
namespace {

// Pieces of a long message: they stay in a core's L2 together with their source.
constexpr std::size_t kMessageChunk = 128 * 1024;

schedule::ProtocolConfig MessageConfig(std::size_t bytes, const cost_model::TuningContext& tuning) {
  if (bytes <= ring::kLineShape.capacity) return {ring::Protocol::line, ring::kLineShape.capacity};
  if (bytes <= ring::kInlineShape.capacity) return {ring::Protocol::inlined, ring::kInlineShape.capacity};
  const std::size_t chunk = tuning.forced.chunk_bytes != 0 ? tuning.forced.chunk_bytes : kMessageChunk;
  return {ring::Protocol::bulk,
          std::clamp(chunk, ring::kCacheLine, tuning.bulk_capacity) / ring::kCacheLine * ring::kCacheLine};
}

}  // namespace

BoundPlan::BoundPlan(Choice chosen, schedule::ProtocolConfig config, schedule::Schedule schedule,
                     schedule::Extents extents, const Operation& operation, const PlanContext& context,
                     int first_channel)
    : choice(std::move(chosen)),
      signature(0),
      plan(std::move(schedule), std::move(extents), config, operation.type, operation.op, *context.fabric,
           first_channel),
      run(plan, *context.fabric, *context.windows),
      stream_output(plan.footprint() * static_cast<std::size_t>(context.fabric->nranks()) > context.stream_bytes) {
  const auto used = BytesUsed(plan.extents());
  input_bytes = used.input;
  output_bytes = used.output;
}

BoundPlan& PlanCache::FindSlowly(const Operation& operation, std::uint64_t packed) {
  PlanKey key = KeyOf(operation, packed);
  auto found = plans_.find(key);
  if (found == plans_.end()) {
    found = plans_.emplace(std::move(key), Make(operation)).first;
  }
  last_ = operation.plain() ? found->second.get() : nullptr;
  last_call_ = packed;
  last_count_ = operation.count;
  return *found->second;
}

static_assert(tuttiNumTransports <= TUTTI_COUNTED_TRANSPORTS && tuttiNumAlgorithms <= TUTTI_COUNTED_ALGORITHMS);

void PlanCache::AddTraffic(tuttiCounters_t& counters) const {
  // In the order of Traffic: value, pointer, window, cma, by network.
  const tuttiTransport_t transports[] = {tuttiTransportShm, tuttiTransportDirect, tuttiTransportDirect,
                                         tuttiTransportCma, context_.network};
  for (const auto& [key, plan] : plans_) {
    const auto algorithm = static_cast<std::size_t>(plan->choice.candidate.algorithm);
    counters.operations += plan->operations;
    counters.operationsByAlgorithm[algorithm] += plan->operations;
    for (std::size_t c = 0; c < plan->run.channels(); ++c) {
      const auto& traffic = plan->run.traffic(c);
      for (std::size_t kind = 0; kind < std::size(transports); ++kind) {
        counters.bytesSent[transports[kind]][algorithm] += traffic.sent[kind];
        counters.bytesReceived[transports[kind]][algorithm] += traffic.received[kind];
      }
    }
  }
}

void PlanCache::Forget(tuttiCounters_t& counters) {
  AddTraffic(counters);
  plans_.clear();
  last_ = nullptr;
}

std::unique_ptr<BoundPlan> PlanCache::Make(const Operation& asked) const {
  const Operation operation = Scheduled(asked);
  const int rank = context_.fabric->rank();
  const int nranks = context_.fabric->nranks();
  const cost_model::TuningContext& tuning = context_.selector->tuning();
  Choice choice;
  schedule::Schedule schedule;
  schedule::ProtocolConfig config;
  int first_channel = 0;
  if (operation.point_to_point()) {
    choice = {{}, "point to point"};
    schedule = MessageSchedule(operation, rank, nranks, 1);
    config = MessageConfig(operation.count * SizeOf(operation.type), tuning);
    first_channel = context_.collective_channels;
  } else {
    const cost_model::Kind kind = KindOf(operation);
    const std::size_t bytes = LargestBlockBytes(operation);
    // A barrier borrows a collective's plan; no program is meant for it.
    const ServingProgram* serving = context_.programs->For(asked);
    if (serving != nullptr) {
      choice = context_.selector->Choose(*serving, kind, bytes);
      schedule = serving->own();
    } else {
      choice = context_.selector->Choose(kind, bytes);
      schedule = BuiltSchedule(operation, choice.candidate, tuning, rank);
    }
    config = cost_model::Fitting(choice.candidate.config, cost_model::BlockBytes(schedule.pieces(), bytes),
                                 static_cast<int>(schedule.channels.size()));
    if (LogEnabled(Subject::select) && rank == 0) {
      Log(Subject::select, "{} on {} ranks:\n{}", DescribeCall(PackCall(asked), asked.count), nranks,
          context_.selector->Explain(kind, bytes, serving != nullptr));
    }
  }
  auto extents = ExtentsOf(operation, nranks, schedule.blocks);
  auto plan = std::make_unique<BoundPlan>(choice, config, std::move(schedule), std::move(extents), operation, context_,
                                          first_channel);
  plan->signature = SignatureOf(asked);
  Log(Subject::select, "rank {}: {}: {}, {} channels, chunk {} B, {} ({}){}", rank,
      DescribeCall(PackCall(asked), asked.count), schedule::NameOf(choice.candidate.algorithm),
      plan->plan.channels().size(), config.chunk_bytes, ring::NameOf(config.protocol), choice.reason,
      plan->stream_output ? "; streams results" : "");
  return plan;
}

}  // namespace tutti::plan
