// The machine behind verify.h: runs one channel of all ranks' schedules on expressions, once, in some fair order.
//
// Thread-safety: none; one owner.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/schedule/schedule.h"
#include "algorithms/schedule/ways.h"
#include "algorithms/verifier/expression.h"
#include "algorithms/verifier/happens_before.h"
#include "algorithms/verifier/verify.h"

namespace tutti::verifier {

class SymbolicRun {
 public:
  // REQUIRES: CheckRules found nothing; ranks and options outlive the run.
  SymbolicRun(std::span<const Schedule> ranks, int channel, const VerifyOptions& options);

  // nullopt: proved.
  std::optional<std::string> Run();

  // After Run: what the last operation left in chunk 0 of a rank's output block. REQUIRES: that block is not empty.
  Expressions::Id Output(int rank, int block) { return CellOf(rank, Out(block), 0).value(); }
  Expressions& expressions() { return expressions_; }

 private:
  using Id = Expressions::Id;
  // A copy of a clock, counted for as long as it lives.
  class LivingClock {
   public:
    LivingClock(const Clock& clock, std::int64_t& living) : clock_(clock), living_(living) { ++living_; }
    ~LivingClock() { --living_; }
    LivingClock(const LivingClock&) = delete;
    LivingClock& operator=(const LivingClock&) = delete;
    const Clock& clock() const { return clock_; }

   private:
    Clock clock_;
    std::int64_t& living_;
  };
  using Snapshot = std::shared_ptr<const LivingClock>;

  struct Violation : std::runtime_error {
    using std::runtime_error::runtime_error;
  };

  struct Slot {
    Id value = Expressions::kNothing;
    int length = 0;
    Event filled;
    Snapshot clock;
    std::vector<std::pair<Cell*, Id>> references;  // memory that the reader may read, and its required value
    int unread = 0;
  };

  // A ring of slots with one writer; a post has a reader for every rank (the writer's own stays unused).
  struct Connection {
    std::size_t depth = 0;    // 0 until it is used
    std::vector<Slot> slots;  // those that have been filled, of `depth`
    std::uint64_t filled = 0;
    std::vector<std::uint64_t> emptied;  // by reader
    int readers = 0;
    Slot& at(std::uint64_t index) { return slots[index % depth]; }
    // Whether the slot that comes next holds what somebody has not read.
    bool full() { return filled >= depth && depth != 0 && at(filled).unread > 0; }
  };

  // A lane, at work.
  struct Actor {
    int id;
    int rank;
    int lane;
    const std::vector<Step>* steps;
    Clock clock;
    int operation = 0;
    int chunk = 0;
    int step = 0;
    // done[step][chunk] of this operation, for steps that an after() names.
    std::vector<std::vector<Snapshot>> done = {};
  };

  struct Rank {
    std::vector<Cell> memory;  // input chunks, output chunks, scratch
    int first_actor = 0;
    int actors = 0;
    int operation = 0;
    int referring_slots = 0;  // filled with references to this rank's memory and not yet emptied
    Clock readers;            // the clocks of the readers that emptied such slots
  };

  // The obstacle that keeps a step from running: one of the two.
  struct Obstacle {
    const After* after = nullptr;
    const Operand* operand = nullptr;
    explicit operator bool() const { return after != nullptr || operand != nullptr; }
  };

  int LengthOf(int rank, int block, int chunk) const;
  Connection& Pairwise(int writer, int reader, int connection) {
    return pairwise_[(writer * nranks_ + reader) * connections_ + connection];
  }
  // A connection, and the reader's index in it.
  struct Source {
    Connection* connection;
    int reader;
    int writer;
  };
  Source SourceOf(const Way& way);
  Connection& TargetOf(const Operand& operand, int writer);
  Cell& CellOf(int rank, const Operand& operand, int chunk);

  // Takes `effort` from the proof's budget.
  void Spend(std::int64_t effort);
  void SpendOnClock();  // copied or merged once
  void MergeFrom(Actor& actor, const LivingClock& other);
  Snapshot TakeSnapshot(const Actor& actor);

  void BeginOperation(Rank& rank, int number);
  bool EndOperation(Rank& rank, int number);
  bool EndTogether();
  void MergeAll();
  void CheckOutputs(Rank& rank, int number);

  bool Advance(Actor& actor);
  bool IsSkipped(const Actor& actor, const Step& step) const;
  Obstacle ObstacleOf(const Actor& actor, const Step& step);
  void Execute(Actor& actor, const Step& step);
  void Order(Actor& actor, const Step& step);
  Id Load(Actor& actor, const Operand& operand, const Event& event);
  Id Empty(Actor& actor, const Source& source, const Event& event, int length);
  bool CopiesToItself(const Actor& actor, const Step& step, const Operand& written);
  void Store(Actor& actor, const Operand& operand, const Event& event, Id value);
  void Fill(Actor& actor, const Operand& operand, Slot slot);
  std::vector<std::pair<Cell*, Id>> References(const Actor& actor, const Step& step);
  void CheckLength(const Actor& actor, const Operand& operand, int length) const;

  bool Finished() const;
  std::string WhyStuck();
  std::string Spell(const Obstacle& obstacle, const Actor& actor);
  void CheckNothingLeft();

  std::string Where(const Event& event) const;
  [[noreturn]] void Fail(const Event& event, const std::string& what) const;
  Event EventOf(const Actor& actor) const;

  const std::span<const Schedule> ranks_;
  const int channel_;
  const VerifyOptions& options_;
  const int nranks_;
  const int blocks_;
  const int connections_;
  const std::vector<int>* lengths_;
  int chunks_;
  std::int64_t living_snapshots_ = 0;  // declared before the members that count in it
  Expressions expressions_;
  std::vector<int> proved_;  // by expression: the place it was proved right for, see CheckOutputs
  std::vector<Connection> pairwise_;
  std::vector<Connection> posts_;
  std::vector<Connection> contributions_;  // by writer and reader
  std::vector<Connection> multicasts_;     // by writer
  std::vector<Rank> memory_;
  std::vector<Actor> actors_;
};

}  // namespace tutti::verifier
