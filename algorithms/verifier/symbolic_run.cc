#include "algorithms/verifier/symbolic_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "algorithms/verifier/verify_rules.h"

namespace tutti::verifier {
namespace {

// A unit of effort is one look at a lane that cannot go on, some 20 ns. A step costs kStepEffort units. Copying or
// merging kClocksPerEffort entries of clocks costs one unit.
constexpr int kStepEffort = 32;
constexpr int kClocksPerEffort = 64;

bool IsMemory(const Operand& operand) { return IsMemory(operand.kind); }

bool FillsSlots(const Step& step) {
  return std::any_of(step.writes.begin(), step.writes.end(), [](const Operand& o) { return !IsMemory(o); });
}

}  // namespace

SymbolicRun::SymbolicRun(std::span<const Schedule> ranks, int channel, const VerifyOptions& options)
    : ranks_(ranks),
      channel_(channel),
      options_(options),
      nranks_(static_cast<int>(ranks.size())),
      blocks_(ranks.front().blocks),
      connections_(ranks.front().connections),
      lengths_(options.lengths.empty() ? nullptr : &options.lengths[channel % options.lengths.size()]),
      pairwise_(nranks_ * nranks_ * connections_),
      posts_(nranks_),
      contributions_(ranks.front().team.empty() ? 0 : nranks_ * nranks_),
      multicasts_(ranks.front().team.empty() ? 0 : nranks_),
      memory_(nranks_) {
  const int longest = lengths_ == nullptr ? 1 : *std::max_element(lengths_->begin(), lengths_->end());
  chunks_ = std::max(options.pairwise ? 1 : 0, (longest + options.chunk - 1) / options.chunk);
  for (int r = 0; r < nranks_; ++r) {
    const auto& lanes = ranks[r].channels[channel].lanes;
    memory_[r].memory.resize(2 * blocks_ * chunks_ + ranks[r].scratch_blocks * (ranks[r].whole_scratch ? chunks_ : 1));
    memory_[r].first_actor = static_cast<int>(actors_.size());
    memory_[r].actors = static_cast<int>(lanes.size());
    for (int l = 0; l < static_cast<int>(lanes.size()); ++l) {
      actors_.push_back({static_cast<int>(actors_.size()), r, l, &lanes[l].steps, {}});
    }
  }
  for (auto& actor : actors_) {
    actor.clock.resize(actors_.size());
    actor.done.resize(actor.steps->size());
  }
  for (const auto& actor : actors_) {
    for (const auto& step : *actor.steps) {
      for (const auto& after : step.after) {
        actors_[memory_[actor.rank].first_actor + after.lane].done[after.step].resize(chunks_);
      }
    }
  }
  for (auto& rank : memory_) rank.readers.resize(actors_.size());
}

std::optional<std::string> SymbolicRun::Run() {
  try {
    for (int r = 0; r < nranks_; ++r) BeginOperation(memory_[r], r);
    if (ranks_.front().one_launch) MergeAll();
    for (bool moved = true; moved;) {
      moved = false;
      for (auto& actor : actors_) moved |= Advance(actor);
      if (ranks_.front().one_launch) {
        moved |= EndTogether();
      } else {
        for (int r = 0; r < nranks_; ++r) moved |= EndOperation(memory_[r], r);
      }
    }
    if (!Finished()) return WhyStuck();
    CheckNothingLeft();
  } catch (const Violation& violation) {
    return violation.what();
  }
  return std::nullopt;
}

// ---- extents and places ----

int SymbolicRun::LengthOf(int rank, int block, int chunk) const {
  if (lengths_ == nullptr) return chunk == 0 ? 1 : 0;
  int index = block;
  if (HasBlocksOfPairs(ranks_.front().collective)) {
    const int parts = ranks_.front().parts();
    const int received = block - blocks_;  // from rank received / parts
    index = block < blocks_ ? rank * blocks_ + block : received / parts * blocks_ + rank * parts + received % parts;
  }
  return std::clamp((*lengths_)[index] - chunk * options_.chunk, 0, options_.chunk);
}

Cell& SymbolicRun::CellOf(int rank, const Operand& operand, int chunk) {
  if (operand.kind != OperandKind::scratch && operand.peer != -1) rank = operand.peer;
  auto& memory = memory_[rank].memory;
  const int block = operand.block;
  if (operand.kind == OperandKind::scratch) {
    return memory[2 * blocks_ * chunks_ + (ranks_[rank].whole_scratch ? block * chunks_ + chunk : block)];
  }
  const bool same = options_.in_place && !ranks_[rank].separate_input && HasInput(ranks_[rank], block) &&
                    HasOutput(ranks_[rank], block);
  const int buffer = operand.kind == OperandKind::input || same ? 0 : 1;
  return memory[(buffer * blocks_ + block) * chunks_ + chunk];
}

SymbolicRun::Source SymbolicRun::SourceOf(const Way& way) {
  switch (way.number) {
    case kPosts: return {&posts_[way.writer], way.reader, way.writer};
    case kMulticasts: return {&multicasts_[way.writer], way.reader, way.writer};
    case kContributions: return {&contributions_[way.writer * nranks_ + way.reader], 0, way.writer};
    default: return {&Pairwise(way.writer, way.reader, way.number), 0, way.writer};
  }
}

SymbolicRun::Connection& SymbolicRun::TargetOf(const Operand& operand, int writer) {
  switch (operand.kind) {
    case OperandKind::to: return Pairwise(writer, operand.peer, operand.connection);
    case OperandKind::contribution: return contributions_[writer * nranks_ + operand.peer];
    case OperandKind::multicast: return multicasts_[writer];
    default: return posts_[writer];
  }
}

// ---- cost ----

void SymbolicRun::Spend(std::int64_t effort) {
  if (options_.effort != nullptr && (*options_.effort -= effort) < 0) {
    throw Violation("it is too complex to prove: it has too many steps, thread blocks or waits");
  }
}

void SymbolicRun::SpendOnClock() { Spend(static_cast<std::int64_t>(actors_.size()) / kClocksPerEffort); }

void SymbolicRun::MergeFrom(Actor& actor, const LivingClock& other) {
  SpendOnClock();
  Merge(actor.clock, other.clock());
}

SymbolicRun::Snapshot SymbolicRun::TakeSnapshot(const Actor& actor) {
  const auto clock_bytes = static_cast<std::int64_t>(actors_.size() * sizeof(Clock::value_type));
  SpendOnClock();
  if (options_.effort != nullptr && living_snapshots_ * clock_bytes > kMaxProofMemory) {
    throw Violation("its proof would take too much memory: it has too many thread blocks and waits");
  }
  return std::make_shared<const LivingClock>(actor.clock, living_snapshots_);
}

// ---- steps ----

Event SymbolicRun::EventOf(const Actor& actor) const {
  return {actor.id, actor.clock[actor.id], actor.operation, actor.chunk, actor.step};
}

// Runs steps until one has to wait. True: something moved.
bool SymbolicRun::Advance(Actor& actor) {
  Spend(1);
  bool moved = false;
  while (actor.chunk < chunks_) {
    for (; actor.step < static_cast<int>(actor.steps->size()); ++actor.step) {
      const Step& step = (*actor.steps)[actor.step];
      if (IsSkipped(actor, step)) continue;
      if (ObstacleOf(actor, step)) return moved;
      Execute(actor, step);
      moved = true;
    }
    actor.step = 0;
    ++actor.chunk;
    moved = true;
  }
  return moved;
}

// The block is too short to have this chunk. Where only the pair has the lengths, even an empty block takes a slot.
bool SymbolicRun::IsSkipped(const Actor& actor, const Step& step) const {
  if (LengthOf(actor.rank, step.block, actor.chunk) > 0) return false;
  const bool talks = FillsSlots(step) || !IsMemory(step.reads.front());
  return !(options_.pairwise && talks && actor.chunk == 0);
}

SymbolicRun::Obstacle SymbolicRun::ObstacleOf(const Actor& actor, const Step& step) {
  Spend(static_cast<std::int64_t>(step.after.size()) / 2);
  for (const auto& after : step.after) {
    const Actor& other = actors_[memory_[actor.rank].first_actor + after.lane];
    if (std::pair(other.chunk, other.step) <= std::pair(actor.chunk, static_cast<int>(after.step))) return {&after};
  }
  for (const auto& operand : step.reads) {
    if (IsMemory(operand)) continue;
    bool filled = true;
    EachWayRead(ranks_[actor.rank], operand, [&](const Way& way) {
      const auto [connection, reader, writer] = SourceOf(way);
      filled = filled && connection->filled != 0 && connection->emptied[reader] != connection->filled;
    });
    if (!filled) return {nullptr, &operand};
  }
  for (const auto& operand : step.writes) {
    if (IsMemory(operand)) continue;
    Connection& connection = TargetOf(operand, actor.rank);
    if (connection.full()) return {nullptr, &operand};
  }
  return {};
}

void SymbolicRun::Execute(Actor& actor, const Step& step) {
  Spend(kStepEffort);
  ++actor.clock[actor.id];
  Order(actor, step);
  const Event event = EventOf(actor);
  const int length = LengthOf(actor.rank, step.block, actor.chunk);

  std::vector<Id> values;
  for (const auto& operand : step.reads) {
    CheckLength(actor, operand, length);
    if (IsMemory(operand)) {
      values.push_back(Load(actor, operand, event));
      continue;
    }
    EachWayRead(ranks_[actor.rank], operand,
                [&](const Way& way) { values.push_back(Empty(actor, SourceOf(way), event, length)); });
  }
  Id value = expressions_.Sum(values);
  if (step.final) value = expressions_.Final(value);

  for (const auto& operand : step.writes) {
    CheckLength(actor, operand, length);
    if (IsMemory(operand) && !CopiesToItself(actor, step, operand)) Store(actor, operand, event, value);
  }
  const bool awaited = !actor.done[actor.step].empty();
  if (!awaited && !FillsSlots(step)) return;
  const auto snapshot = TakeSnapshot(actor);
  if (awaited) actor.done[actor.step][actor.chunk] = snapshot;
  for (const auto& operand : step.writes) {
    if (IsMemory(operand)) continue;
    // A switch reads and multiplies data, not references.
    const bool may_refer = operand.kind == OperandKind::to || operand.kind == OperandKind::post;
    auto references = may_refer ? References(actor, step) : std::vector<std::pair<Cell*, Id>>{};
    Fill(actor, operand, {value, length, event, snapshot, std::move(references), 0});
  }
}

// Orders the step after all that it has waited for.
void SymbolicRun::Order(Actor& actor, const Step& step) {
  for (const auto& after : step.after) {
    const Actor& other = actors_[memory_[actor.rank].first_actor + after.lane];
    const Step& awaited = (*other.steps)[after.step];
    // A step that is skipped for this chunk orders nothing.
    if (!IsSkipped(actor, awaited)) MergeFrom(actor, *other.done[after.step][actor.chunk]);
  }
  for (const auto& operand : step.reads) {
    if (IsMemory(operand)) continue;
    EachWayRead(ranks_[actor.rank], operand, [&](const Way& way) {
      const auto [connection, reader, writer] = SourceOf(way);
      MergeFrom(actor, *connection->at(connection->emptied[reader]).clock);
    });
  }
}

// A block of the input or output must be as long as the block that the step says it moves.
void SymbolicRun::CheckLength(const Actor& actor, const Operand& operand, int length) const {
  if (operand.kind != OperandKind::input && operand.kind != OperandKind::output) return;
  const bool received = operand.kind == OperandKind::output && HasBlocksOfPairs(ranks_.front().collective);
  const int owner = operand.peer != -1 ? operand.peer : actor.rank;
  const int own = LengthOf(owner, operand.block + (received ? blocks_ : 0), actor.chunk);
  if (own == length) return;
  Fail(EventOf(actor), fmt::format("the step's chunk has length {}, but that of {}[{}] has length {}", length,
                                   operand.kind == OperandKind::input ? "in" : "out", operand.block, own));
}

Expressions::Id SymbolicRun::Load(Actor& actor, const Operand& operand, const Event& event) {
  Cell& cell = CellOf(actor.rank, operand, actor.chunk);
  if (const auto writer = cell.Read(event, actor.clock)) {
    Fail(event, fmt::format("block {} may be read before or after it is written by {}", operand.block, Where(*writer)));
  }
  if (cell.value() == Expressions::kNothing) Fail(event, fmt::format("nothing was written to block {}", operand.block));
  const Event& written = cell.last_write();
  if (operand.kind == OperandKind::scratch && (written.chunk != event.chunk || written.operation != event.operation)) {
    Fail(event, fmt::format("scratch[{}] holds another chunk, written by {}", operand.block, Where(written)));
  }
  return operand.scaled ? expressions_.Scaled(cell.value()) : cell.value();
}

// In place, a block may already be where it is to be copied to; executors then leave it alone.
bool SymbolicRun::CopiesToItself(const Actor& actor, const Step& step, const Operand& written) {
  const Operand& read = step.reads.front();
  return step.reads.size() == 1 && IsMemory(read) && !read.scaled && !step.final &&
         &CellOf(actor.rank, read, actor.chunk) == &CellOf(actor.rank, written, actor.chunk);
}

void SymbolicRun::Store(Actor& actor, const Operand& operand, const Event& event, Id value) {
  Cell& cell = CellOf(actor.rank, operand, actor.chunk);
  if (const auto earlier = cell.Write(event, actor.clock, value)) {
    Fail(event, fmt::format("block {} is overwritten while it may be in use by {}", operand.block, Where(*earlier)));
  }
}

Expressions::Id SymbolicRun::Empty(Actor& actor, const Source& source, const Event& event, int length) {
  Slot& slot = source.connection->at(source.connection->emptied[source.reader]++);
  --slot.unread;
  if (slot.length != length || slot.filled.operation != event.operation || slot.filled.chunk != event.chunk) {
    Fail(event,
         fmt::format("expects a slot of length {}, chunk {}, operation {}, but finds one of length {}, filled by {}",
                     length, event.chunk, event.operation, slot.length, Where(slot.filled)));
  }
  for (const auto& [cell, value] : slot.references) {
    const auto writer = cell->Read(event, actor.clock);
    if (writer || cell->value() != value) {
      Fail(event, fmt::format("the slot refers to memory that may have changed: filled by {}, overwritten by {}",
                              Where(slot.filled), Where(cell->last_write())));
    }
  }
  if (!slot.references.empty()) {
    Rank& owner = memory_[source.writer];
    --owner.referring_slots;
    Merge(owner.readers, actor.clock);
  }
  return slot.value;
}

void SymbolicRun::Fill(Actor& actor, const Operand& operand, Slot slot) {
  Connection& connection = TargetOf(operand, actor.rank);
  if (connection.depth == 0) {
    const bool post = operand.kind == OperandKind::post;
    const bool multicast = operand.kind == OperandKind::multicast;
    connection.depth = static_cast<std::size_t>(post ? options_.post_depth : options_.slot_depth);
    connection.readers = post ? nranks_ - 1 : multicast ? static_cast<int>(ranks_[actor.rank].team.size()) - 1 : 1;
    connection.emptied.resize(post || multicast ? nranks_ : 1);
  }
  slot.unread = connection.readers;
  if (!slot.references.empty()) memory_[actor.rank].referring_slots += slot.unread;
  // Slots that the schedule never uses take no memory.
  if (connection.filled < connection.depth) connection.slots.emplace_back();
  connection.at(connection.filled++) = std::move(slot);
}

// A slot may refer to memory that has its value: a single block that is passed on unchanged, or where the result also
// goes. The executor chooses which, so all must stay valid. (A scaled block is passed on unchanged unless the operation
// scales.)
std::vector<std::pair<Cell*, Expressions::Id>> SymbolicRun::References(const Actor& actor, const Step& step) {
  std::vector<std::pair<Cell*, Id>> references;
  if (!options_.by_reference) return references;
  const auto add = [&](const Operand& operand) {
    if (operand.kind != OperandKind::input && operand.kind != OperandKind::output) return;
    Cell& cell = CellOf(actor.rank, operand, actor.chunk);
    references.emplace_back(&cell, cell.value());
  };
  if (step.reads.size() == 1 && !step.final) add(step.reads.front());
  for (const auto& operand : step.writes) add(operand);
  return references;
}

bool SymbolicRun::Finished() const {
  return std::all_of(memory_.begin(), memory_.end(),
                     [&](const Rank& rank) { return rank.operation == options_.operations; });
}

}  // namespace tutti::verifier
