#include "algorithms/verifier/verify_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "algorithms/builders/records.h"

namespace tutti::verifier {
namespace {

enum class End { filling, emptying };

// Checks one rank. Every function returns what is wrong, or an empty string.
class RankRules {
 public:
  explicit RankRules(const Schedule& schedule) : schedule_(schedule) {}

  std::optional<std::string> Check() {
    for (site_.channel = 0; site_.channel < Size(schedule_.channels); ++site_.channel) {
      lane_of_.clear();
      const auto& lanes = schedule_.channels[site_.channel].lanes;
      for (site_.lane = 0; site_.lane < Size(lanes); ++site_.lane) {
        const auto& steps = lanes[site_.lane].steps;
        for (site_.step = 0; site_.step < Size(steps); ++site_.step) {
          const std::string wrong = CheckStep(steps[site_.step], lanes);
          if (!wrong.empty()) {
            return fmt::format("{}: {}: {}", Spell(schedule_, site_), ToString(steps[site_.step]), wrong);
          }
        }
      }
    }
    return std::nullopt;
  }

 private:
  template <typename Container>
  static int Size(const Container& container) {
    return static_cast<int>(container.size());
  }

  std::string CheckStep(const Step& step, const std::vector<Lane>& lanes) {
    const int blocks = HasBlocksOfPairs(schedule_.collective) ? 2 * schedule_.blocks : schedule_.blocks;
    if (step.block < 0 || step.block >= blocks) return fmt::format("there is no block {}", step.block);
    if (step.reads.empty() || step.writes.empty()) return "a step must have at least one read and one write";
    if (Size(step.reads) > kMaxReads || Size(step.writes) > MostWrites(schedule_)) {
      return fmt::format("{} reads and {} writes; the limits are {} and {}", step.reads.size(), step.writes.size(),
                         kMaxReads, MostWrites(schedule_));
    }
    if (step.final && !IsReducing(schedule_.collective))
      return "this collective does not reduce, so no step can be final";
    if (step.reads.size() > 1 && !IsReducing(schedule_.collective))
      return "this collective does not reduce, so a step can have only one read";
    for (const auto& after : step.after) {
      if (after.lane < 0 || after.lane >= Size(lanes) || after.step < 0 ||
          after.step >= Size(lanes[after.lane].steps)) {
        return fmt::format("it comes after lane {}, step {}, which does not exist", after.lane, after.step);
      }
    }
    for (const bool written : {false, true}) {
      const auto& operands = written ? step.writes : step.reads;
      for (std::size_t i = 0; i < operands.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
          if (operands[i] == operands[j]) return "it names the same operand twice";
        }
        std::string wrong = CheckOperand(operands[i], written);
        if (!wrong.empty()) return wrong;
      }
    }
    return {};
  }

  std::string CheckOperand(const Operand& operand, bool written) {
    if (operand.scaled && (operand.kind != OperandKind::input || !IsReducing(schedule_.collective))) {
      return "only an input that is to be reduced can be scaled";
    }
    switch (operand.kind) {
      case OperandKind::input:
        return written ? "the input must not be written" : CheckBuffer(operand, HasInput, "input");
      case OperandKind::output: return CheckBuffer(operand, HasOutput, "output");
      case OperandKind::scratch:
        if (operand.block >= 0 && operand.block < schedule_.scratch_blocks) return {};
        return fmt::format("there is no scratch[{}]", operand.block);
      case OperandKind::from: return written ? "from() can only be read" : CheckConnection(operand, End::emptying);
      case OperandKind::to: return written ? CheckConnection(operand, End::filling) : "to() can only be written";
      case OperandKind::post:
        if (!written) return CheckConnection(operand, End::emptying);
        if (operand.peer != schedule_.rank) return "a rank can post only its own slots";
        return CheckOneLane(operand, End::filling);
      case OperandKind::contribution:
        if (!written) return "a contribution can only be written; it is read as part of a sum";
        return CheckTeam(operand.peer, operand, End::filling);
      case OperandKind::sum:
        if (written) return "a sum can only be read";
        if (operand.peer != -1) return "a sum is of the whole team, not of a rank";
        if (!IsReducing(schedule_.collective)) return "this collective does not reduce, so no step can read a sum";
        return CheckTeam(schedule_.rank, operand, End::emptying);
      case OperandKind::multicast:
        if (written && operand.peer != schedule_.rank) return "a rank can multicast only its own slots";
        if (!written && operand.peer == schedule_.rank) return "a rank has no connection with itself";
        return CheckTeam(operand.peer, operand, written ? End::filling : End::emptying);
    }
    return "unknown place";
  }

  std::string CheckBuffer(const Operand& operand, bool (*has)(const Schedule&, int, int), std::string_view name) const {
    if (operand.peer != -1) {
      if (!schedule_.one_launch) return "only ranks in one launch may use each other's buffers";
      if (operand.peer < 0 || operand.peer >= schedule_.nranks) return fmt::format("there is no rank {}", operand.peer);
      if (operand.peer == schedule_.rank) return "a rank's own buffers are named without its number";
    }
    const int owner = operand.peer != -1 ? operand.peer : schedule_.rank;
    if (operand.block >= 0 && operand.block < schedule_.blocks && has(schedule_, operand.block, owner)) return {};
    return fmt::format("rank {} has no block {} in its {}", owner, operand.block, name);
  }

  std::string CheckConnection(const Operand& operand, End end) {
    if (operand.peer < 0 || operand.peer >= schedule_.nranks) return fmt::format("there is no rank {}", operand.peer);
    if (operand.peer == schedule_.rank) return "a rank has no connection with itself";
    if (operand.connection < 0 || operand.connection >= schedule_.connections) {
      return fmt::format("there is no connection {} with rank {}", operand.connection, operand.peer);
    }
    return CheckOneLane(operand, end);
  }

  std::string CheckTeam(int rank, const Operand& operand, End end) {
    const auto& team = schedule_.team;
    if (std::find(team.begin(), team.end(), rank) != team.end()) return CheckOneLane(operand, end);
    return fmt::format("rank {} is not in the team of rank {}", rank, schedule_.rank);
  }

  std::string CheckOneLane(const Operand& operand, End end) {
    const auto [entry, added] = lane_of_.try_emplace({operand.kind, operand.peer, operand.connection, end}, site_.lane);
    if (added || entry->second == site_.lane) return {};
    return fmt::format("lane {} is {} that connection already; the order of its slots would be undefined",
                       entry->second, end == End::filling ? "filling" : "emptying");
  }

  const Schedule& schedule_;
  Site site_{};
  std::map<std::tuple<OperandKind, int, int, End>, int> lane_of_;
};

// Every rank of a team has the same team, and is in it.
std::optional<std::string> TeamRules(std::span<const Schedule> ranks, const Schedule& schedule) {
  if (schedule.team.empty() != ranks.front().team.empty()) return "some ranks have a team, others have none";
  bool own = schedule.team.empty();
  for (const int q : schedule.team) {
    own = own || q == schedule.rank;
    if (q < 0 || q >= schedule.nranks) return fmt::format("rank {} has rank {} in its team", schedule.rank, q);
    if (ranks[q].team != schedule.team) {
      return fmt::format("ranks {} and {} differ in their team", schedule.rank, q);
    }
  }
  if (!own) return fmt::format("rank {} is not in its own team", schedule.rank);
  if (std::adjacent_find(schedule.team.begin(), schedule.team.end(), std::greater_equal<>()) != schedule.team.end()) {
    return fmt::format("the team of rank {} is not in ascending order", schedule.rank);
  }
  return std::nullopt;
}

bool Holds(const Side& side, const Schedule& schedule, int block, int rank) {
  if (side.of_root) return rank == schedule.root;
  return side.part != Part::own || block / schedule.parts() == rank;
}

}  // namespace

bool HasInput(const Schedule& schedule, int block) { return HasInput(schedule, block, schedule.rank); }
bool HasOutput(const Schedule& schedule, int block) { return HasOutput(schedule, block, schedule.rank); }

bool HasInput(const Schedule& schedule, int block, int rank) {
  return Holds(PatternOf(schedule.collective).input, schedule, block, rank);
}

bool HasOutput(const Schedule& schedule, int block, int rank) {
  return Holds(PatternOf(schedule.collective).output, schedule, block, rank);
}

std::string Spell(const Schedule& schedule, const Site& site) {
  return fmt::format("{} by {}, rank {} of {}, channel {}, lane {}, step {}, chunk {}", NameOf(schedule.collective),
                     builders::NameOf(schedule.algorithm), schedule.rank, schedule.nranks, site.channel, site.lane,
                     site.step, site.chunk);
}

std::optional<std::string> CheckRules(std::span<const Schedule> ranks) {
  if (ranks.empty()) return "there are no schedules";
  const Schedule& first = ranks.front();
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const Schedule& schedule = ranks[r];
    if (schedule.blocks < 1 || (HasBlocksOfRanks(schedule.collective) && schedule.blocks % schedule.nranks != 0)) {
      return fmt::format("rank {} has {} blocks, which cannot be divided equally among {} ranks", r, schedule.blocks,
                         schedule.nranks);
    }
    if (schedule.rank != static_cast<int>(r) || schedule.nranks != static_cast<int>(ranks.size())) {
      return fmt::format("schedule {} of {} is for rank {} of {}", r, ranks.size(), schedule.rank, schedule.nranks);
    }
    if (schedule.collective != first.collective || schedule.root != first.root || schedule.blocks != first.blocks ||
        schedule.connections != first.connections || schedule.channels.size() != first.channels.size() ||
        schedule.reference_safe != first.reference_safe ||
        schedule.reference_safe_in_place != first.reference_safe_in_place || schedule.one_launch != first.one_launch ||
        schedule.separate_input != first.separate_input) {
      return fmt::format(
          "ranks 0 and {} differ in collective, root, blocks, connections, channels, reference safety or launch", r);
    }
    if (auto wrong = TeamRules(ranks, schedule)) return wrong;
    if (auto wrong = RankRules(schedule).Check()) return wrong;
  }
  return std::nullopt;
}

}  // namespace tutti::verifier
