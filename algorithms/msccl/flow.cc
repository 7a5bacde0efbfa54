#include "algorithms/msccl/flow.h"

#include <bitset>
#include <deque>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "algorithms/builders/records.h"
#include "algorithms/builders/steps.h"
#include "algorithms/msccl/lanes.h"
#include "algorithms/verifier/verify_rules.h"

namespace tutti::msccl {
namespace {

// Visits of thread blocks. Each thread block is visited until none can advance. A ring of 256 GPUs with 16 thread
// blocks each takes 2 million visits; the limit takes half a second.
constexpr int kMaxVisits = 1 << 22;

// The facts about one chunk's data.
struct Data {
  int block = 0;                                     // its block's number in the schedule
  std::bitset<kMaxProgramRanks> contributions = {};  // in a reduction, by rank
};

// A chunk of a rank's memory.
struct Cell {
  std::optional<Data> data;
  bool written = false;  // else it is the caller's input
  int scratch = -1;      // where it lies if it was written and is not the caller's output
};

class Flow {
 public:
  explicit Flow(const ProgramText& text) : text_(text), n_(static_cast<int>(text.ranks.size())) {
    for (int r = 0; r < n_; ++r) ranks_.push_back(MakeRank(r));
    for (bool moved = true; moved;) {
      moved = false;
      for (auto& rank : ranks_) {
        for (auto& actor : rank.actors) moved = Visit(rank, actor) || moved;
      }
    }
    // Steps that wait forever are written down without their data.
    for (auto& rank : ranks_) {
      for (auto& actor : rank.actors) {
        for (; actor.step < std::ssize(actor.block->steps); ++actor.step) Perform(rank, actor);
      }
    }
  }

  std::vector<schedule::Schedule> schedules() && {
    std::vector<schedule::Schedule> schedules;
    for (auto& rank : ranks_) schedules.push_back(std::move(rank.schedule));
    return schedules;
  }

 private:
  // A thread block, at work.
  struct Actor {
    int id;
    const ThreadBlock* block;
    int step = 0;
  };
  struct Rank {
    schedule::Schedule schedule;
    std::vector<Cell> inputs, outputs, scratch;
    std::vector<Actor> actors;
    ProgramLanes lanes;
  };

  Rank MakeRank(int number) const {
    const ProgramRank& program = text_.ranks[number];
    Rank rank{.schedule = {.collective = text_.collective,
                           .algorithm = builders::kFromFiles,
                           .rank = number,
                           .nranks = n_,
                           .root = text_.root,
                           .blocks = text_.blocks,
                           .connections = text_.connections,
                           .channels = {{}}},
              .inputs = std::vector<Cell>(text_.blocks),
              .outputs = std::vector<Cell>(text_.blocks),
              .scratch = std::vector<Cell>(program.scratch),
              .actors = {},
              .lanes = ProgramLanes(program)};
    for (int b = 0; b < text_.blocks; ++b) {
      if (!verifier::HasInput(rank.schedule, b)) continue;
      Data data{b};
      if (schedule::IsReducing(text_.collective)) data.contributions.set(number);
      rank.inputs[b].data = data;
    }
    for (const ThreadBlock& block : program.thread_blocks) {
      rank.actors.push_back({static_cast<int>(rank.actors.size()), &block});
    }
    rank.schedule.channels[0].lanes.resize(program.thread_blocks.size());
    return rank;
  }

  // ---- memory ----

  // Where a buffer holds one rank's block, the file counts from that block's start.
  int BlockAt(const Rank& rank, const Instruction::Range& range, int i) const {
    const Pattern& pattern = PatternOf(text_.collective);
    const bool alone = (range.buffer == Buffer::input ? pattern.input : pattern.output).part == Part::own;
    return range.first + i + (alone ? rank.schedule.rank * rank.schedule.parts() : 0);
  }

  // In place, input and output are one.
  Cell& CellAt(Rank& rank, const Instruction::Range& range, int i) const {
    if (range.buffer == Buffer::scratch) return rank.scratch[range.first + i];
    const int block = BlockAt(rank, range, i);
    return range.buffer == Buffer::input || text_.in_place ? rank.inputs[block] : rank.outputs[block];
  }

  schedule::Operand OperandOf(Rank& rank, const Instruction::Range& range, int i, bool written) const {
    Cell& cell = CellAt(rank, range, i);
    if (range.buffer != Buffer::scratch) {
      const int block = BlockAt(rank, range, i);
      const bool untouched = !written && !cell.written;
      if (untouched && (range.buffer == Buffer::input || text_.in_place) && verifier::HasInput(rank.schedule, block)) {
        return schedule::IsReducing(text_.collective) ? schedule::Scaled(block) : schedule::In(block);
      }
      if ((range.buffer == Buffer::output || text_.in_place) && verifier::HasOutput(rank.schedule, block))
        return schedule::Out(block);
    }
    if (cell.scratch == -1) cell.scratch = rank.schedule.scratch_blocks++;
    return schedule::Scratch(cell.scratch);
  }

  // ---- steps ----

  std::deque<std::optional<Data>>& Slots(int from, int to, int connection) { return slots_[{from, to, connection}]; }

  bool Visit(Rank& rank, Actor& actor) {
    if (++visits_ > kMaxVisits) {
      const auto& steps = actor.block->steps;
      if (actor.step < std::ssize(steps)) {
        steps[actor.step].element.Refuse(
            "thread blocks wait for one another too often: the program is too complex to check");
      }
    }
    return Advance(rank, actor);
  }

  // Performs whole steps until one has to wait: slots are unlimited here.
  bool Advance(Rank& rank, Actor& actor) {
    bool moved = false;
    for (; actor.step < std::ssize(actor.block->steps); ++actor.step) {
      const Instruction& step = actor.block->steps[actor.step];
      if (step.awaited_block != -1 && step.awaited_step != -1 &&
          rank.actors[step.awaited_block].step <= step.awaited_step) {
        break;
      }
      const auto arrived = [&] {
        return std::ssize(Slots(actor.block->receive, rank.schedule.rank, actor.block->connection));
      };
      if (step.operation->receives && arrived() < step.count) break;
      Perform(rank, actor);
      moved = true;
    }
    return moved;
  }

  void Perform(Rank& rank, const Actor& actor) {
    const Instruction& step = actor.block->steps[actor.step];
    if (step.is_nop()) return;
    auto& lane = rank.schedule.channels[0].lanes[actor.id].steps;
    for (int i = 0; i < step.count; ++i) {
      lane.push_back(Translate(rank, actor, step, i));
      if (i == 0) lane.back().after = rank.lanes.Awaited(actor.id, actor.step);
    }
  }

  schedule::Step Translate(Rank& rank, const Actor& actor, const Instruction& step, int i) {
    const auto& [send, receive, connection, steps] = *actor.block;
    const auto& operation = *step.operation;
    const bool adds = operation.name == "re";
    std::vector<std::optional<Data>> read;
    schedule::Step made = builders::MakeStep(0, {}, {});
    const auto load = [&](const Instruction::Range& range) {
      made.reads.push_back(OperandOf(rank, range, i, false));
      read.push_back(CellAt(rank, range, i).data);
    };
    if (operation.receives) {
      made.reads.push_back(schedule::By(connection, schedule::From(receive)));
      auto& slots = Slots(receive, rank.schedule.rank, connection);
      read.push_back(slots.empty() ? std::nullopt : slots.front());
      if (!slots.empty()) slots.pop_front();
    }
    if (adds) load(step.destination);
    if (operation.reads) load(step.source);

    const std::optional<Data> result = Reduced(rank, step, read, made);
    made.block = static_cast<std::int16_t>(NameOfLength(rank, step, i, result));

    if (operation.writes) {
      made.writes.push_back(OperandOf(rank, step.destination, i, true));
      Cell& cell = CellAt(rank, step.destination, i);
      cell.written = true;
      cell.data = result;
    }
    if (operation.sends) {
      made.writes.push_back(schedule::By(connection, schedule::To(send)));
      Slots(rank.schedule.rank, send, connection).push_back(result);
    }
    return made;
  }

  // The data that the step computes from its reads. The step that completes a sum is final.
  std::optional<Data> Reduced(const Rank& rank, const Instruction& step, const std::vector<std::optional<Data>>& read,
                              schedule::Step& made) const {
    std::optional<Data> result = read.front();
    for (std::size_t i = 1; i < read.size() && result; ++i) {
      if (!read[i]) return std::nullopt;
      const auto twice = result->contributions & read[i]->contributions;
      for (int r = 0; r < n_; ++r) {
        if (twice[r]) {
          step.element.Refuse("GPU {} adds the contribution of GPU {} to chunk {}, which already includes it",
                              rank.schedule.rank, r, result->block);
        }
      }
      result->contributions |= read[i]->contributions;
    }
    if (result && schedule::IsReducing(text_.collective)) {
      const auto complete = static_cast<std::size_t>(n_);
      const bool grown = read.size() > 1 || made.reads.front().scaled;
      made.final = grown && result->contributions.count() == complete;
    }
    return result;
  }

  // The block that gives the data's length. An all-to-all's blocks have one length, so each part may name its own.
  int NameOfLength(const Rank& rank, const Instruction& step, int i, const std::optional<Data>& data) const {
    const int block =
        data ? data->block : ((step.operation->reads ? step.source : step.destination).first + i) % text_.blocks;
    if (!schedule::HasBlocksOfPairs(text_.collective)) return block;
    const int parts = rank.schedule.parts();
    return rank.schedule.rank * parts + block % parts;
  }

  const ProgramText& text_;
  const int n_;
  std::vector<Rank> ranks_;
  std::map<std::tuple<int, int, int>, std::deque<std::optional<Data>>> slots_;
  int visits_ = 0;
};

}  // namespace

std::vector<schedule::Schedule> FollowData(const ProgramText& text) { return Flow(text).schedules(); }

}  // namespace tutti::msccl
