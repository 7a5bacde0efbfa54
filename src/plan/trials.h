// Tries the most promising plans of a call that repeats itself, and keeps the one that took least: prices are estimates, and
// networks change.
//
// All ranks count a call alike, so each plan serves the same calls on all of them. Before some of the calls the ranks exchange
// what they know, by an all-reduce of their own: how long a call takes; when that makes a trial worth its time, rank 0's list of
// plans; after the trial, how long calls took by each; and from time to time whether they still take as long. All conclude the same.
//
// Thread-safety: as Operations.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/clocks/clock.h"
#include "selection/tuner/tuner.h"
#include "src/plan/operation.h"

namespace tutti::plan {

// A rank's message to the others. An all-reduce takes the greatest of all ranks' numbers, place by place. Only rank 0 has plans.
struct TrialWords {
  static constexpr std::size_t kMostPlans = 4;

  // Integers here are below 2^24, or multiples of a slot's line below 2^30: floats hold them exactly.
  struct Plan {
    float algorithm = 0, channels = 0, protocol = 0, cma = 0, chunk_bytes = 0, predicted_us = 0;
  };
  float plans = 0;
  std::array<Plan, kMostPlans> plan{};
  // The time of a call in the fastest and in the slowest round, by plan; outside of trials, of the serving plan, in the first place.
  // Negated, so that the least of all ranks counts: the rank that comes last waits for no other.
  std::array<float, kMostPlans> minus_fastest_us{}, minus_slowest_us{};
};

// The trial of one call, on one rank.
class Trial {
 public:
  using List = std::function<std::vector<tuner::Estimate>()>;  // the usual plan first

  Trial(std::string call, List list) : call_(std::move(call)), list_(std::move(list)) {}

  // Whether the ranks exchange words before the next call.
  bool due() const { return calls_ == next_exchange_; }
  TrialWords Mine(bool lists) const;
  // `all`: the greatest of all ranks' words, in each place. Says what was concluded, for a person; empty: nothing new.
  std::string Conclude(const TrialWords& all);
  // The plan of the next call: 0: the usual one.
  std::size_t next() const { return stage_ == Stage::trying ? calls_ / in_a_row_ % plans_.size() : serving_; }
  const cost_model::Candidate& candidate(std::size_t plan) const { return plans_[plan].candidate; }
  // A call has ended.
  void Add(double us);
  // The plan serves until further notice, and no exchange is due.
  bool Keeps(std::size_t plan) const {
    return (stage_ == Stage::serving || stage_ == Stage::waiting) && serving_ == plan && !due();
  }
  // Why the plan is used, for a person; empty: because it is the usual one.
  std::string Reason(std::size_t plan) const;

 private:
  // In its first calls, a program may still be starting. Then the ranks exchange how long a call takes.
  static constexpr std::uint64_t kFirstCalls = 32;
  // A trial takes about a tenth of a second, mostly by slower plans. A call must have taken so long in all to be worth it.
  static constexpr double kWorthTryingUs = 1e6;
  // A plan serves so many calls in a row, or as many as take so long; then the next one does. The first calls of a run do not
  // count: they make the plan, and the caches forget the plan before.
  static constexpr std::uint64_t kFewestInARow = 8, kMostInARow = 512;
  static constexpr double kRunUs = 10'000;
  static constexpr std::uint64_t kRounds = 3;
  static constexpr std::uint64_t kFirstLook = 4096, kRarestLook = 65536;
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  // Another plan's slowest round must take at most so much of the serving plan's fastest one.
  static constexpr double kWorthChanging = 0.95;
  // Where calls take this many times as long as they did, or as little of it, the plans are tried again.
  static constexpr double kOtherThanBefore = 1.5;

  enum class Stage : std::uint8_t { usual, waiting, trying, serving };

  // Microseconds, in the fastest and the slowest round.
  struct Took {
    double fastest = 0, slowest = 0;
    std::string Text() const;
  };
  static Took TookBy(const TrialWords& all, std::size_t plan);
  void Try();
  void Serve(std::size_t plan, const Took& us);

  std::string call_;
  List list_;
  Stage stage_ = Stage::usual;
  std::uint64_t calls_ = 0;  // since the stage began
  std::uint64_t in_a_row_ = kFewestInARow;
  std::uint64_t next_exchange_ = kFirstCalls;
  std::uint64_t looks_every_ = kFirstLook;
  std::vector<tuner::Estimate> plans_;
  std::size_t serving_ = 0;
  std::array<Took, TrialWords::kMostPlans> took_{};                       // all ranks, on trial
  std::array<std::array<double, kRounds>, TrialWords::kMostPlans> us_{};  // mean of a run's calls, by plan and round
};

class Trials {
 public:
  // The plans to try for such a call. Called on rank 0.
  using Lister = std::function<std::vector<tuner::Estimate>(const cost_model::Kind&, std::size_t bytes)>;

  // `all_types`: also where the plan determines a result's last bits.
  Trials(int rank, bool all_types, Lister lister);

  // The call's trial; null: it has none.
  Trial* Of(const Operation& operation, std::uint64_t packed);
  // The collective by which ranks exchange words before that call; null: the call comes next. The result is good until it has
  // ended, which Exchanged() says.
  const Operation* Before(const Operation& next);
  void Exchanged();

  double Microseconds(std::int64_t ticks) const { return static_cast<double>(ticks) * calendar_.Scale().us_per_tick; }

 private:
  // A program that never repeats a call must not fill the memory.
  static constexpr std::size_t kMostTrials = 64;

  int rank_;
  bool all_types_;
  Lister lister_;
  TickCalendar calendar_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, Trial> trials_;  // by PackCall and count
  Trial* exchanging_ = nullptr;
  TrialWords words_;  // this rank's, then all ranks'
  Operation exchange_;
};

}  // namespace tutti::plan
