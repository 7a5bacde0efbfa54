// How the operations of a symbolic run begin and end.
#include <fmt/format.h>

#include <algorithm>

#include "algorithms/verifier/symbolic_run.h"
#include "algorithms/verifier/verify_rules.h"

namespace tutti::verifier {

// The caller has put new data into the input and no longer needs the output.
void SymbolicRun::BeginOperation(Rank& rank, int number) {
  if (rank.actors == 0) return;
  Actor& first = actors_[rank.first_actor];
  ++first.clock[first.id];
  const Event event{first.id, first.clock[first.id], rank.operation, 0, -1};
  const auto write = [&](const Operand& operand, int chunk, Id value) {
    Cell& cell = CellOf(number, operand, chunk);
    if (const auto earlier = cell.Write(event, first.clock, value)) {
      Fail(*earlier, fmt::format("is not ordered before the caller's next use of {}[{}]",
                                 operand.kind == OperandKind::input ? "in" : "out", operand.block));
    }
  };
  for (int b = 0; b < blocks_; ++b) {
    for (int chunk = 0; chunk < chunks_; ++chunk) {
      if (HasOutput(ranks_[number], b)) write(Out(b), chunk, Expressions::kNothing);
      if (HasInput(ranks_[number], b)) write(In(b), chunk, expressions_.Of({rank.operation, number, b, chunk}));
    }
  }
  for (int i = 0; i < rank.actors; ++i) {
    Actor& actor = actors_[rank.first_actor + i];
    SpendOnClock();
    Merge(actor.clock, first.clock);
    actor.operation = rank.operation;
    actor.chunk = 0;
    actor.step = 0;
  }
}

// An operation returns when all lanes are through and no slot refers to the caller's memory any more.
bool SymbolicRun::EndOperation(Rank& rank, int number) {
  if (rank.operation >= options_.operations || rank.referring_slots > 0) return false;
  for (int i = 0; i < rank.actors; ++i) {
    if (actors_[rank.first_actor + i].chunk < chunks_) return false;
  }
  CheckOutputs(rank, number);
  ++rank.operation;
  if (rank.operation == options_.operations || rank.actors == 0) return true;
  Actor& first = actors_[rank.first_actor];
  Merge(first.clock, rank.readers);
  for (int i = 1; i < rank.actors; ++i) Merge(first.clock, actors_[rank.first_actor + i].clock);
  BeginOperation(rank, number);
  return true;
}

// Ranks in one launch begin and end their operations together.
bool SymbolicRun::EndTogether() {
  if (memory_.front().operation >= options_.operations) return false;
  if (std::any_of(actors_.begin(), actors_.end(), [this](const Actor& actor) { return actor.chunk < chunks_; })) {
    return false;
  }
  for (int r = 0; r < nranks_; ++r) CheckOutputs(memory_[r], r);
  MergeAll();
  for (auto& rank : memory_) ++rank.operation;
  if (memory_.front().operation == options_.operations) return true;
  for (int r = 0; r < nranks_; ++r) BeginOperation(memory_[r], r);
  MergeAll();
  return true;
}

// Orders all that has happened before all that follows.
void SymbolicRun::MergeAll() {
  Clock all(actors_.size());
  for (const auto& actor : actors_) Merge(all, actor.clock);
  for (auto& actor : actors_) {
    SpendOnClock();
    actor.clock = all;
  }
}

void SymbolicRun::CheckOutputs(Rank& rank, int number) {
  const Schedule& schedule = ranks_[number];
  const bool of_pairs = HasBlocksOfPairs(schedule.collective);
  for (int b = 0; b < blocks_; ++b) {
    if (!HasOutput(schedule, b)) continue;
    for (int chunk = 0; chunk < chunks_ && LengthOf(number, of_pairs ? blocks_ + b : b, chunk) > 0; ++chunk) {
      const Id value = CellOf(number, Out(b), chunk).value();
      const auto wrong = [&](const std::string& what) {
        const Event& last = CellOf(number, Out(b), chunk).last_write();
        throw Violation(
            fmt::format("rank {}, channel {}: out[{}], chunk {}, operation {} is {}: {}; last written by {}", number,
                        channel_, b, chunk, rank.operation, expressions_.ToString(value), what, Where(last)));
      };
      if (value == Expressions::kNothing) wrong("no step wrote it");
      if (IsReducing(schedule.collective)) {
        // Most ranks have the same expression; it is right for one block, chunk and operation only.
        const int place = (rank.operation * blocks_ + b) * chunks_ + chunk;
        proved_.resize(std::max(proved_.size(), static_cast<std::size_t>(value) + 1), -1);
        if (proved_[value] == place) continue;
        if (auto why = expressions_.WhyNoReduction(value, {rank.operation, 0, b, chunk}, nranks_)) wrong(*why);
        proved_[value] = place;
        continue;
      }
      const int parts = schedule.parts();
      const int source = PatternOf(schedule.collective).input.of_root ? schedule.root : b / parts;
      const Id expected = expressions_.Of({rank.operation, source, of_pairs ? number * parts + b % parts : b, chunk});
      if (value != expected) {
        wrong(fmt::format("it should be {} of the same chunk and operation", expressions_.ToString(expected)));
      }
    }
  }
}

}  // namespace tutti::verifier
