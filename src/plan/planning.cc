#include "src/plan/planning.h"

#include <algorithm>
#include <span>

#include "algorithms/builders/build.h"
#include "algorithms/builders/records.h"
#include "base/error.h"
#include "base/numbers/datatype.h"
#include "transports/ring/slot_arithmetic.h"

namespace tutti::plan {
namespace {

std::vector<std::size_t> InBytes(std::vector<std::size_t> elements, std::size_t size) {
  for (auto& each : elements) each *= size;
  return elements;
}

// The end of the last block. The unused entries of a side that holds one block lie at its start.
std::size_t EndOf(const std::vector<std::size_t>& offsets, std::span<const std::size_t> lengths) {
  std::size_t end = 0;
  for (std::size_t b = 0; b < offsets.size(); ++b) end = std::max(end, offsets[b] + lengths[b]);
  return end;
}

}  // namespace

std::size_t PlanKeyHash::operator()(const PlanKey& key) const {
  std::uint64_t hash = ring::Mix(key.call) ^ key.count;
  for (const auto each : key.further) hash = ring::Mix(hash) ^ each;
  return ring::Mix(hash);
}

PlanKey KeyOf(const Operation& operation, std::uint64_t packed) {
  PlanKey key{packed, operation.count, {}};
  if (const auto* vector_counts = operation.vector_counts.get()) {
    for (const auto* part : {&vector_counts->counts, &vector_counts->places, &vector_counts->receive_counts,
                             &vector_counts->receive_places}) {
      key.further.insert(key.further.end(), part->begin(), part->end());
    }
  }
  if (operation.tensors != nullptr) key.further = operation.tensors->agreed;
  return key;
}

Operation Scheduled(const Operation& operation) {
  Operation scheduled = operation;
  if (operation.collective == schedule::Collective::barrier) scheduled.collective = schedule::Collective::all_reduce;
  return scheduled;
}

cost_model::Kind KindOf(const Operation& operation) {
  return {operation.collective, schedule::IsReducing(operation.collective) && IsLowPrecision(operation.type),
          operation.pairwise()};
}

std::size_t LargestBlockBytes(const Operation& operation) {
  std::size_t count = operation.count;
  if (operation.vector_counts != nullptr) {
    for (const auto each : operation.vector_counts->counts) count = std::max(count, each);
  }
  return count * SizeOf(operation.type);
}

schedule::Extents ExtentsOf(const Operation& operation, int nranks, int blocks) {
  const std::size_t size = SizeOf(operation.type);
  if (operation.point_to_point()) return schedule::MessageExtents(operation.count * size);
  if (operation.pairwise()) {
    const auto& vector_counts = *operation.vector_counts;
    return schedule::PairwiseExtents(InBytes(vector_counts.counts, size), InBytes(vector_counts.places, size),
                                     InBytes(vector_counts.receive_counts, size),
                                     InBytes(vector_counts.receive_places, size));
  }
  if (operation.vector_counts != nullptr) {
    return schedule::UnevenExtents(operation.collective, InBytes(operation.vector_counts->counts, size),
                                   InBytes(operation.vector_counts->places, size));
  }
  return schedule::UniformExtents(operation.collective, nranks, blocks, operation.count * size);
}

UsedBytes BytesUsed(const schedule::Extents& extents) {
  const std::span<const std::size_t> lengths(extents.length);
  return {EndOf(extents.input_offset, lengths),
          EndOf(extents.output_offset, lengths.last(extents.output_offset.size()))};
}

schedule::Schedule MessageSchedule(const Operation& operation, int rank, int nranks, int channels) {
  const bool sends = operation.collective == schedule::Collective::send;
  schedule::Step step{0,
                      {sends ? schedule::In(0) : schedule::From(operation.root)},
                      {sends ? schedule::To(operation.root) : schedule::Out(0)}};
  return {.collective = operation.collective,
          .algorithm = tuttiAlgorithmNone,
          .rank = rank,
          .nranks = nranks,
          .blocks = 1,
          .channels = std::vector<schedule::Channel>(static_cast<std::size_t>(channels),
                                                     schedule::Channel{{schedule::Lane{{step}}}}),
          .reference_safe = true,
          .one_lane_safe = true};
}

schedule::Schedule BuiltSchedule(const Operation& operation, const cost_model::Candidate& candidate,
                                 const cost_model::TuningContext& tuning, int rank) {
  builders::ScheduleRequest request = tuning.Ask(operation.collective);
  request.rank = rank;
  request.root = operation.root;
  request.channels = candidate.channels;
  auto built = builders::Build(candidate.algorithm, request);
  if (!built) {
    Throw(tuttiInternalError, "no schedule of {} by {} on {} ranks", schedule::NameOf(operation.collective),
          builders::NameOf(candidate.algorithm), tuning.nranks);
  }
  return std::move(*built);
}

}  // namespace tutti::plan
