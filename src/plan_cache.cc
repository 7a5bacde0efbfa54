#include "src/plan_cache.h"

#include <algorithm>

#include "algorithms/build.h"
#include "base/datatype.h"
#include "base/error.h"
#include "base/log.h"

namespace tutti {
namespace {

std::vector<std::size_t> InBytes(std::vector<std::size_t> elements, std::size_t size) {
  for (auto& each : elements) each *= size;
  return elements;
}

Extents ExtentsOf(const Operation& operation, int nranks, int blocks) {
  const std::size_t size = SizeOf(operation.type);
  if (operation.point_to_point()) return MessageExtents(operation.count * size);
  if (operation.pairwise()) {
    const auto& uneven = *operation.uneven;
    return PairwiseExtents(InBytes(uneven.counts, size), InBytes(uneven.places, size),
                           InBytes(uneven.receive_counts, size), InBytes(uneven.receive_places, size));
  }
  if (operation.uneven != nullptr) {
    return UnevenExtents(operation.collective, InBytes(operation.uneven->counts, size),
                         InBytes(operation.uneven->places, size));
  }
  return UniformExtents(operation.collective, nranks, blocks, operation.count * size);
}

Schedule MessageSchedule(const Operation& operation, int rank, int nranks) {
  const bool sends = operation.collective == Collective::send;
  Step step{0, {sends ? In(0) : From(operation.root)}, {sends ? To(operation.root) : Out(0)}};
  return {.collective = operation.collective,
          .algorithm = tuttiAlgorithmNone,
          .rank = rank,
          .nranks = nranks,
          .blocks = 1,
          .channels = {{{Lane{{std::move(step)}}}}},
          .reference_safe = true};
}

// A barrier is an all-reduce of one byte that nobody looks at.
Operation Scheduled(const Operation& operation) {
  Operation scheduled = operation;
  if (operation.collective == Collective::barrier) scheduled.collective = Collective::all_reduce;
  return scheduled;
}

// Where the last block ends. The unused entries of a side that holds one block lie at its start.
std::size_t EndOf(const std::vector<std::size_t>& offsets, std::span<const std::size_t> lengths) {
  std::size_t end = 0;
  for (std::size_t b = 0; b < offsets.size(); ++b) end = std::max(end, offsets[b] + lengths[b]);
  return end;
}

std::size_t LargestBlockBytes(const Operation& operation) {
  std::size_t count = operation.count;
  if (operation.uneven != nullptr) {
    for (const auto each : operation.uneven->counts) count = std::max(count, each);
  }
  return count * SizeOf(operation.type);
}

Kind KindOf(const Operation& operation) {
  return {operation.collective, IsReducing(operation.collective) && IsLowPrecision(operation.type),
          operation.pairwise()};
}

// Pieces of a long message: they stay in a core's L2 beside what they are copied from.
constexpr std::size_t kMessageChunk = 128 * 1024;

Shape MessageShape(std::size_t bytes, const Conditions& conditions) {
  if (bytes <= kLineShape.capacity) return {Wire::line, kLineShape.capacity};
  if (bytes <= kInlineShape.capacity) return {Wire::inlined, kInlineShape.capacity};
  const std::size_t chunk = conditions.forced.chunk_bytes != 0 ? conditions.forced.chunk_bytes : kMessageChunk;
  return {Wire::bulk, std::clamp(chunk, kCacheLine, conditions.bulk_capacity) / kCacheLine * kCacheLine};
}

// This rank's part of a collective by one of our algorithms.
Schedule BuiltSchedule(const Operation& operation, const Candidate& candidate, const Conditions& conditions, int rank) {
  Question question = conditions.Ask(operation.collective);
  question.rank = rank;
  question.root = operation.root;
  question.channels = candidate.channels;
  auto built = Build(candidate.algorithm, question);
  if (!built) {
    Throw(tuttiInternalError, "no schedule of {} by {} on {} ranks", NameOf(operation.collective),
          NameOf(candidate.algorithm), conditions.nranks);
  }
  return std::move(*built);
}

}  // namespace

BoundPlan::BoundPlan(Choice chosen, Shape shape, Schedule schedule, Extents extents, const Operation& operation,
                     const PlanContext& context, int first_channel)
    : choice(std::move(chosen)),
      signature(0),
      plan(std::move(schedule), std::move(extents), shape, operation.type, operation.op, *context.fabric,
           first_channel),
      run(plan, *context.fabric, *context.windows),
      stream_output(plan.footprint() * static_cast<std::size_t>(context.fabric->nranks()) > context.stream_bytes) {
  const auto& used = plan.extents();
  const std::span<const std::size_t> lengths(used.length);
  input_bytes = EndOf(used.input_offset, lengths);
  output_bytes = EndOf(used.output_offset, lengths.last(used.output_offset.size()));
}

std::size_t PlanCache::Hash::operator()(const PlanKey& key) const {
  std::uint64_t hash = Mix(key.call) ^ key.count;
  for (const auto each : key.uneven) hash = Mix(hash) ^ each;
  return Mix(hash);
}

BoundPlan& PlanCache::Find(const Operation& operation, std::uint64_t packed) {
  if (last_ != nullptr && last_call_ == packed && last_count_ == operation.count && operation.uneven == nullptr)
    return *last_;
  return FindSlowly(operation, packed);
}

BoundPlan& PlanCache::FindSlowly(const Operation& operation, std::uint64_t packed) {
  PlanKey key{packed, operation.count, {}};
  if (const auto* uneven = operation.uneven.get()) {
    for (const auto* part : {&uneven->counts, &uneven->places, &uneven->receive_counts, &uneven->receive_places}) {
      key.uneven.insert(key.uneven.end(), part->begin(), part->end());
    }
  }
  auto found = plans_.find(key);
  if (found == plans_.end()) {
    found = plans_.emplace(std::move(key), Make(operation)).first;
  }
  last_ = operation.uneven != nullptr ? nullptr : found->second.get();
  last_call_ = packed;
  last_count_ = operation.count;
  return *found->second;
}

static_assert(tuttiNumTransports <= TUTTI_COUNTED_TRANSPORTS && tuttiNumAlgorithms <= TUTTI_COUNTED_ALGORITHMS);

void PlanCache::AddTraffic(tuttiCounters_t& counters) const {
  // By SlotKind: value, pointer, window, cma.
  constexpr tuttiTransport_t kTransports[] = {tuttiTransportShm, tuttiTransportDirect, tuttiTransportDirect,
                                              tuttiTransportCma};
  for (const auto& [key, plan] : plans_) {
    const auto algorithm = static_cast<std::size_t>(plan->choice.candidate.algorithm);
    counters.operations += plan->operations;
    counters.operationsByAlgorithm[algorithm] += plan->operations;
    for (std::size_t c = 0; c < plan->run.channels(); ++c) {
      const auto& traffic = plan->run.traffic(c);
      for (std::size_t kind = 0; kind < std::size(kTransports); ++kind) {
        counters.bytesSent[kTransports[kind]][algorithm] += traffic.sent[kind];
        counters.bytesReceived[kTransports[kind]][algorithm] += traffic.received[kind];
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
  const Conditions& conditions = context_.selector->conditions();
  Choice choice;
  Schedule schedule;
  Shape shape;
  int first_channel = 0;
  if (operation.point_to_point()) {
    choice = {{}, "point to point"};
    schedule = MessageSchedule(operation, rank, nranks);
    shape = MessageShape(operation.count * SizeOf(operation.type), conditions);
    first_channel = context_.collective_channels;
  } else {
    const Kind kind = KindOf(operation);
    const std::size_t bytes = LargestBlockBytes(operation);
    // A barrier borrows a collective; no program is meant for that.
    const ServingProgram* serving = context_.programs->For(asked);
    if (serving != nullptr) {
      choice = context_.selector->Choose(*serving, kind, bytes);
      schedule = serving->own();
    } else {
      choice = context_.selector->Choose(kind, bytes);
      schedule = BuiltSchedule(operation, choice.candidate, conditions, rank);
    }
    shape = Fitting(choice.candidate.shape, BlockBytes(schedule.pieces(), bytes),
                    static_cast<int>(schedule.channels.size()));
    if (LogEnabled(Subject::select) && rank == 0) {
      Log(Subject::select, "{} on {} ranks:\n{}", DescribeCall(PackCall(asked), asked.count), nranks,
          context_.selector->Explain(kind, bytes, serving != nullptr));
    }
  }
  auto extents = ExtentsOf(operation, nranks, schedule.blocks);
  auto plan = std::make_unique<BoundPlan>(choice, shape, std::move(schedule), std::move(extents), operation, context_,
                                          first_channel);
  plan->signature = SignatureOf(asked);
  Log(Subject::select, "rank {}: {}: {}, {} channels, chunk {} B, {} ({}){}", rank,
      DescribeCall(PackCall(asked), asked.count), NameOf(choice.candidate.algorithm), plan->plan.channels().size(),
      shape.chunk_bytes, NameOf(shape.wire), choice.reason, plan->stream_output ? "; streams results" : "");
  return plan;
}

}  // namespace tutti
