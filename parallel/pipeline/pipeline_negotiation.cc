#include "parallel/pipeline/pipeline_negotiation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tutti/parallel/error.h"

namespace tutti::parallel {
namespace {

template <std::size_t kSize>
using Text = std::array<char, kSize>;

template <std::size_t kSize>
void Write(Text<kSize>& field, const std::string& text) {
  auto size = std::min(text.size(), kSize - 1);
  // A character of UTF-8 that does not fit is left out as a whole: its later bytes begin with the bits 10.
  const auto continues = [&] { return (static_cast<unsigned char>(text[size]) & 0xC0U) == 0x80U; };
  if (size < text.size()) {
    while (size > 0 && continues()) --size;
  }
  std::ranges::copy_n(text.begin(), static_cast<std::ptrdiff_t>(size), field.begin());
}
template <std::size_t kSize>
std::string Read(const Text<kSize>& field) {
  return {field.begin(), std::ranges::find(field, '\0')};
}

// Terms as they are sent: laid out alike on every rank, zeroed where nothing is.
struct SpecRecord {
  std::int32_t is_there = 0;
  std::int32_t dtype = 0;
  std::uint64_t dimensions = 0;
  std::array<std::uint64_t, kMostDimensions> shape{};
};
struct Record {
  Text<56> schedule{};
  std::int32_t stages = 0;
  std::int32_t microbatches = 0;
  std::int32_t chunks = 1;
  std::int32_t asks = 0;
  std::uint64_t digest = 0;
  SpecRecord takes;
  SpecRecord gives;
  Text<512> trouble{};
};

SpecRecord Encoded(const std::optional<TensorSpec>& spec) {
  SpecRecord record;
  if (!spec) return record;
  record.is_there = 1;
  record.dtype = spec->dtype;
  record.dimensions = std::min(spec->shape.size(), kMostDimensions);
  std::copy_n(spec->shape.begin(), record.dimensions, record.shape.begin());
  return record;
}

std::optional<TensorSpec> Decoded(const SpecRecord& record) {
  if (record.is_there == 0) return std::nullopt;
  const auto dimensions = static_cast<std::ptrdiff_t>(record.dimensions);
  return TensorSpec{Shape(record.shape.begin(), record.shape.begin() + dimensions),
                    static_cast<tuttiDataType_t>(record.dtype)};
}

std::string TroubleOf(const PipelineTerms& terms) {
  if (!terms.trouble.empty()) return terms.trouble;
  for (const auto& [what, spec] : {std::pair{"takes", &terms.takes}, std::pair{"gives", &terms.gives}}) {
    if (!*spec || (*spec)->shape.size() <= kMostDimensions) continue;
    return fmt::format("the tensor that it {} has {} dimensions; at most {} can be negotiated", what,
                       (*spec)->shape.size(), kMostDimensions);
  }
  return "";
}

// Throws unless `field` has one value on all stages.
template <typename Field>
void RequireSame(const char* what, const std::vector<PipelineTerms>& terms, const Field& field) {
  for (std::size_t stage = 1; stage < terms.size(); ++stage) {
    const auto first = field(terms.front()), other = field(terms[stage]);
    if (first == other) continue;
    throw Error(tuttiInvalidUsage, fmt::format("{} is {} on stage 0, but {} on stage {}: give every stage the same "
                                               "schedule",
                                               what, first, other, stage));
  }
}

// "stage 1"; with several chunks a stage "chunk 0 of stage 1".
struct PlaceOf {
  const PipelineSchedule& schedule;

  std::string operator()(int number) const {
    const auto [stage, chunk] = chunk_at(schedule, number);
    return schedule.chunks == 1 ? fmt::format("stage {}", stage) : fmt::format("chunk {} of stage {}", chunk, stage);
  }
  const char* none() const { return schedule.chunks == 1 ? "no stage" : "no chunk"; }
};

std::string OrNothing(const std::optional<TensorSpec>& spec) { return spec ? describe(*spec) : "nothing"; }

}  // namespace

PipelineTerms TermsOf(const PipelineSchedule& schedule) {
  // FNV-1a, a number at a time.
  std::uint64_t digest = 0xcbf29ce484222325;
  const auto fold = [&](std::uint64_t number) { digest = (digest ^ number) * 0x100000001b3; };
  const auto fold_action = [&](const PipelineAction& action) {
    fold(1 + static_cast<std::uint64_t>(action.pass));
    fold(static_cast<std::uint64_t>(action.microbatch));
    fold(static_cast<std::uint64_t>(action.chunk));
  };
  const auto fold_transfers = [&](const std::vector<PipelineTransfer>& transfers) {
    fold(transfers.size());
    for (const auto& transfer : transfers) {
      fold_action(transfer.made_by);
      fold(static_cast<std::uint64_t>(transfer.from));
      fold(static_cast<std::uint64_t>(transfer.to));
    }
  };
  fold(static_cast<std::uint64_t>(schedule.placement));
  for (const auto& actions : schedule.actions) {
    fold(actions.size());
    std::ranges::for_each(actions, fold_action);
  }
  for (const auto& places : schedule.exchanges) {
    for (const auto& exchanges : places) {
      fold(exchanges.size());
      for (const auto& exchange : exchanges) fold_transfers(exchange.sends), fold_transfers(exchange.receives);
    }
  }
  return {schedule.name, schedule.stages, schedule.microbatches, schedule.chunks, digest, false, {}, {}, ""};
}

void RequireSameSchedule(const std::vector<PipelineTerms>& terms) {
  RequireSame("the schedule", terms, [](const auto& each) { return fmt::format("\"{}\"", each.schedule); });
  RequireSame("the number of stages", terms, [](const auto& each) { return each.stages; });
  RequireSame("the number of microbatches", terms, [](const auto& each) { return each.microbatches; });
  RequireSame("the number of model chunks a stage", terms, [](const auto& each) { return each.chunks; });
  RequireSame("the digest of the schedule's actions", terms,
              [](const auto& each) { return fmt::format("{:016x}", each.digest); });
  for (std::size_t stage = 0; stage < terms.size(); ++stage) {
    if (terms[stage].trouble.empty()) continue;
    throw Error(tuttiInvalidArgument, fmt::format("stage {}: {}", stage, terms[stage].trouble));
  }
}

void RequireFitting(const PipelineSchedule& schedule, const std::vector<PipelineTerms>& terms) {
  const PlaceOf place_of{schedule};
  const auto of = [&](int number) -> const PipelineTerms& {
    const auto [stage, chunk] = chunk_at(schedule, number);
    return terms[static_cast<std::size_t>(chunk * schedule.stages + stage)];
  };
  const int last = schedule.stages * schedule.chunks - 1;
  for (int number = 0; number < last; ++number) {
    const auto &gives = of(number).gives, &takes = of(number + 1).takes;
    if (gives && gives == takes) continue;
    throw Error(tuttiInvalidUsage,
                fmt::format("{} gives {} per microbatch, but {} takes {}: both must be the same tensor",
                            place_of(number), OrNothing(gives), place_of(number + 1), OrNothing(takes)));
  }
  if (of(0).takes) {
    throw Error(tuttiInvalidUsage, fmt::format("{} takes {} per microbatch, but {} comes before it", place_of(0),
                                               describe(*of(0).takes), place_of.none()));
  }
  if (of(last).gives) {
    throw Error(tuttiInvalidUsage, fmt::format("{} gives {} per microbatch, but {} comes after it", place_of(last),
                                               describe(*of(last).gives), place_of.none()));
  }
}

std::vector<PipelineTerms> Gather(ProcessGroup& group, const PipelineTerms& mine) {
  Record record{.stages = mine.stages,
                .microbatches = mine.microbatches,
                .chunks = mine.chunks,
                .asks = mine.asks ? 1 : 0,
                .digest = mine.digest,
                .takes = Encoded(mine.takes),
                .gives = Encoded(mine.gives)};
  Write(record.schedule, mine.schedule);
  Write(record.trouble, TroubleOf(mine));
  std::vector<Record> records(group.ranks().size());
  group.all_gather(Tensor(&record, {sizeof record}, tuttiUint8),
                   Tensor(records.data(), {records.size(), sizeof record}, tuttiUint8));
  std::vector<PipelineTerms> terms;
  terms.reserve(records.size());
  for (const auto& each : records) {
    terms.push_back({Read(each.schedule), each.stages, each.microbatches, each.chunks, each.digest, each.asks != 0,
                     Decoded(each.takes), Decoded(each.gives), Read(each.trouble)});
  }
  return terms;
}

}  // namespace tutti::parallel
