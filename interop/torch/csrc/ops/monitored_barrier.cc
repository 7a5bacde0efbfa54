#include "interop/torch/csrc/ops/monitored_barrier.h"

#include <algorithm>
#include <string>
#include <vector>

#include "interop/torch/csrc/failure.h"

namespace tutti::pytorch {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLookAtWriter = std::chrono::milliseconds(100);
constexpr char kPassed[] = "+";

[[noreturn]] void Throw(tuttiResult_t code, const std::string& text) {
  throw Failure(code, std::string("tutti: ") + tuttiGetErrorString(code) + ": " + text);
}

std::string InMilliseconds(std::chrono::milliseconds time) { return std::to_string(time.count()) + " ms"; }

std::string Missing(const std::vector<int>& ranks, std::chrono::milliseconds timeout) {
  std::string names;
  for (const auto rank : ranks) names += (names.empty() ? "" : ", ") + std::to_string(rank);
  return std::string(ranks.size() == 1 ? "Rank " : "Ranks ") + names + " failed to pass monitoredBarrier in " +
         InMilliseconds(timeout);
}

// Whether the key appeared before `until` and before its writer, rank `writer`, died.
bool Comes(const std::string& key, Board& board, const Gathering& gathering, int writer, Clock::time_point until) {
  auto next_look = Clock::now();
  for (Pauses pauses; !board.Has(key); pauses.Sleep()) {
    const auto now = Clock::now();
    if (now >= until) return false;
    if (now < next_look) continue;
    if (gathering.HasEnded(writer)) return board.Has(key);
    next_look = now + kLookAtWriter;
  }
  return true;
}

}  // namespace

void MonitoredBarrier(const Meeting& all, Board& board, std::uint64_t number, std::chrono::milliseconds timeout,
                      bool wait_all_ranks) {
  const std::atomic<bool> never{false};
  const auto until = Clock::now() + timeout;
  const auto* const roster = all.gathering->Wait({until, never});
  if (all.rank == 0 && timeout.count() <= 0) {
    Throw(tuttiTimeoutError, "Rank 0 timed out in monitoredBarrier after waiting for " + InMilliseconds(timeout));
  }
  const auto reached = "Rank " + std::to_string(all.rank) +
                       " successfully reached monitoredBarrier, but received errors while waiting for send/recv from "
                       "rank 0. Please check rank 0 logs for faulty rank: ";
  if (roster == nullptr) {
    auto absent = all.gathering->Absent();
    if (all.rank != 0 || absent.empty()) Throw(tuttiTimeoutError, reached + "the group is not complete");
    if (!wait_all_ranks) absent.resize(1);
    Throw(tuttiTimeoutError, Missing(absent, timeout));
  }
  const auto base = roster->token + "/" + all.name + "/monitored/" + std::to_string(number) + "/";
  if (all.rank != 0) {
    board.Write(base + std::to_string(all.rank), "");
    if (!Comes(base + "result", board, *all.gathering, 0, until)) {
      Throw(tuttiTimeoutError, reached + (all.gathering->HasEnded(0) ? "it died (" + roster->processes[0].Text() + ")"
                                                                     : "no answer within " + InMilliseconds(timeout)));
    }
    const auto result = board.Read(base + "result");
    if (result != kPassed) Throw(tuttiRemoteError, reached + result);
    return;
  }
  std::vector<int> missing;
  for (int rank = 1; rank < all.ranks && (wait_all_ranks || missing.empty()); ++rank) {
    if (!Comes(base + std::to_string(rank), board, *all.gathering, rank, until)) {
      missing.push_back(rank);
    }
  }
  const auto text = missing.empty() ? kPassed : Missing(missing, timeout);
  board.Write(base + "result", text);
  if (!missing.empty()) Throw(tuttiTimeoutError, text);
}

}  // namespace tutti::pytorch
