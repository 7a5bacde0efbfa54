#include "algorithms/verifier/verify.h"

#include <algorithm>

#include "algorithms/verifier/symbolic_run.h"
#include "algorithms/verifier/verify_rules.h"
#include "transports/ring/layout.h"

namespace tutti::verifier {
namespace {

// One chunk of every block, once, with the fewest slots that connections have.
VerifyOptions Once() { return {.slot_depth = ring::kBulkDepth, .post_depth = ring::kBulkDepth}; }

// Whether channel `c` equals channel `earlier` on every rank, with the same lengths: then it needs no second proof.
bool IsRepetition(std::span<const Schedule> ranks, const VerifyOptions& options, int c, int earlier) {
  const auto n = options.lengths.size();
  if (n > 1 && options.lengths[c % n] != options.lengths[earlier % n]) return false;
  return std::all_of(ranks.begin(), ranks.end(),
                     [&](const Schedule& schedule) { return schedule.channels[c] == schedule.channels[earlier]; });
}

// A switch adds in an order of its own.
bool ReadsSums(std::span<const Schedule> ranks) {
  const auto reads_sum = [](const Step& step) {
    return std::any_of(step.reads.begin(), step.reads.end(),
                       [](const Operand& read) { return read.kind == OperandKind::sum; });
  };
  for (const Schedule& schedule : ranks) {
    for (const Channel& channel : schedule.channels) {
      for (const Lane& lane : channel.lanes) {
        if (std::any_of(lane.steps.begin(), lane.steps.end(), reads_sum)) return true;
      }
    }
  }
  return false;
}

}  // namespace

std::optional<std::string> Verify(std::span<const Schedule> ranks, const VerifyOptions& options) {
  if (auto wrong = CheckRules(ranks)) return wrong;
  for (int c = 0; c < static_cast<int>(ranks.front().channels.size()); ++c) {
    bool proved = false;
    for (int earlier = 0; earlier < c && !proved; ++earlier) proved = IsRepetition(ranks, options, c, earlier);
    if (proved) continue;
    if (auto wrong = SymbolicRun(ranks, c, options).Run()) return wrong;
  }
  return std::nullopt;
}

std::string OutputExpression(std::span<const Schedule> ranks, int rank, int block) {
  const VerifyOptions once = Once();
  SymbolicRun run(ranks, 0, once);
  run.Run();
  return run.expressions().ToString(run.Output(rank, block));
}

bool IsDeterministic(std::span<const Schedule> ranks) {
  if (!IsReducing(ranks.front().collective)) return true;
  if (ReadsSums(ranks)) return false;
  const VerifyOptions once = Once();
  for (int c = 0; c < static_cast<int>(ranks.front().channels.size()); ++c) {
    SymbolicRun run(ranks, c, once);
    if (run.Run()) return false;
    Expressions& expressions = run.expressions();
    for (int b = 0; b < ranks.front().blocks; ++b) {
      std::vector<Expressions::Id> contributions;
      for (int q = 0; q < ranks.front().nranks; ++q) {
        contributions.push_back(expressions.Scaled(expressions.Of({0, q, b, 0})));
      }
      const Expressions::Id expected = expressions.Final(expressions.Sum(contributions));
      for (const Schedule& schedule : ranks) {
        if (HasOutput(schedule, b) && run.Output(schedule.rank, b) != expected) return false;
      }
    }
  }
  return true;
}

}  // namespace tutti::verifier
