#include "tools/inspect/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "base/files/json.h"
#include "base/plain_text.h"
#include "src/bootstrap/join_messages.h"
#include "src/diagnostics/source_lines.h"

namespace tutti::tools {
namespace {

constexpr double kUsPerSecond = 1e6;
// Upper bound for microseconds since 1970; reached in the year 5138.
constexpr double kLatestUs = 1e17;
// More ranks than any job has. Also bounds a message's peer, which is printed unchecked.
constexpr int kMostRanks = 1 << 20;
// Longest name of a host, a communicator or a call in a sentence.
constexpr std::size_t kMaxName = 256;

std::string NameIn(const JsonValue& json, const char* key) { return Printable(json.Text(key), kMaxName); }

DumpedOperation OperationOf(const JsonValue& json) {
  DumpedOperation operation;
  operation.sequence = json.Whole("sequence", 0, std::numeric_limits<std::uint64_t>::max());
  operation.call = NameIn(json, "call");
  operation.kind = NameIn(json, "kind");
  operation.signature = NameIn(json, "signature");
  operation.algorithm = NameIn(json, "algorithm");
  if (json.Has("site")) operation.site = NameIn(json, "site");
  operation.peer = static_cast<int>(json.Integer("peer", -1, kMostRanks, -1));
  operation.started_us = json.Number("started_us", 0, kLatestUs);
  operation.done = json.Flag("done");
  operation.ended_us = json.Number("ended_us", 0, kLatestUs, 0);
  return operation;
}

// The call, and the line where it was made: "all_reduce(count=8, float32, sum) at train.py:41 in step".
std::string Called(const DumpedOperation& operation) { return operation.call + diagnostics::AtSite(operation.site); }

// One communicator's dumps, one per rank.
class Case {
 public:
  explicit Case(std::vector<Dump> dumps) : dumps_(std::move(dumps)), by_rank_(dumps_.front().ranks.size()) {
    for (const auto& dump : dumps_) by_rank_[static_cast<std::size_t>(dump.rank)] = &dump;
  }

  std::string Tell() {
    const auto& first = dumps_.front();
    Say("communicator {}{}, {} ranks, {} dumps:", Printable(first.communicator.substr(0, 8)),
        first.name.empty() ? "" : fmt::format(" \"{}\"", first.name), by_rank_.size(), dumps_.size());
    TellFailures();
    TellCollective();
    TellMessages();
    TellMissing();
    return text_;
  }

 private:
  template <typename... Arguments>
  void Say(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    text_ += fmt::format(format, std::forward<Arguments>(arguments)...) + "\n";
  }
  std::string Who(int rank) const { return dumps_.front().ranks[static_cast<std::size_t>(rank)]; }
  static std::string Ago(const Dump& dump, double then_us) {
    return fmt::format("{:.3f} s before its dump", (dump.time_us - then_us) / kUsPerSecond);
  }

  // Ranks with the same failure share a line.
  void TellFailures() {
    std::map<std::string, std::vector<int>> failures;
    for (const auto& dump : dumps_) {
      if (!dump.failure.empty()) failures[dump.failure].push_back(dump.rank);
    }
    for (const auto& [failure, ranks] : failures) Say("  {} failed: {}", bootstrap::DescribeRanks(ranks), failure);
  }

  static const DumpedOperation* NewestCollective(const Dump& dump) {
    const auto found = std::find_if(dump.operations.rbegin(), dump.operations.rend(),
                                    [](const auto& operation) { return operation.kind == "collective"; });
    return found == dump.operations.rend() ? nullptr : &*found;
  }

  void TellCollective() {
    std::uint64_t furthest = 0;
    for (const auto& dump : dumps_) {
      if (const auto* newest = NewestCollective(dump)) furthest = std::max(furthest, newest->sequence);
    }
    std::map<std::pair<std::string, std::string>, std::vector<int>> called;  // by call and site, of the furthest
    std::map<std::string, int> signatures;           // likewise; a rank that made such a call
    std::vector<int> inside, late;
    for (const auto& dump : dumps_) {
      const auto* const newest = NewestCollective(dump);
      if (newest == nullptr) {
        Say("  {} has called no collective yet", Who(dump.rank));
        if (furthest > 0) late.push_back(dump.rank);
        continue;
      }
      const auto by = newest->algorithm == "none" ? "" : fmt::format(" by {}", newest->algorithm);
      if (newest->done) {
        Say("  {} is in no operation: its last was operation {}, {}{}{}, done {}", Who(dump.rank), newest->sequence,
            newest->call, by, diagnostics::AtSite(newest->site), Ago(dump, newest->ended_us));
      } else {
        Say("  {} is in operation {}, {}{}{}, since {}{}", Who(dump.rank), newest->sequence, newest->call, by,
            diagnostics::AtSite(newest->site), Ago(dump, newest->started_us),
            dump.waits_for < 0 ? "" : fmt::format("; it waits for {}", Who(dump.waits_for)));
      }
      if (newest->sequence < furthest) {
        late.push_back(dump.rank);
        continue;
      }
      called[{newest->call, newest->site}].push_back(dump.rank);
      signatures.emplace(newest->signature, dump.rank);
      if (!newest->done) inside.push_back(dump.rank);
    }
    if (signatures.size() > 1) {
      std::string calls;
      for (const auto& [call, ranks] : called) {
        calls += fmt::format("{}{} called {}{}", calls.empty() ? "" : ", ", bootstrap::DescribeRanks(ranks), call.first,
                             diagnostics::AtSite(call.second));
      }
      const bool alike = called.begin()->first.first == called.rbegin()->first.first;
      Say("  => The calls of operation {} do not match: {}{}", furthest, calls,
          alike ? ", but the counts of single ranks differ" : "");
    } else if (!inside.empty() && !late.empty()) {
      Say("  => {} in operation {} wait{} for {}, which {} not called it", bootstrap::DescribeRanks(inside), furthest,
          inside.size() == 1 ? "s" : "", bootstrap::DescribeRanks(late), late.size() == 1 ? "has" : "have");
    } else if (!inside.empty() && dumps_.size() == by_rank_.size()) {
      Say("  => All ranks that have not finished operation {} are in it: it is running, or the network between them is "
          "stuck",
          furthest);
    }
  }

  // Unfinished messages, and how far the other side has come.
  void TellMessages() {
    for (const auto& dump : dumps_) {
      for (const auto& message : dump.operations) {
        if (message.kind == "collective" || message.done) continue;
        if (message.kind == "wait_signal") {
          TellWait(dump, message);
          continue;
        }
        const bool sends = message.kind == "send";
        std::string other = ", which left no dump";
        if (message.peer >= 0 && message.peer < static_cast<int>(by_rank_.size()) &&
            by_rank_[static_cast<std::size_t>(message.peer)] != nullptr) {
          other = OtherSide(*by_rank_[static_cast<std::size_t>(message.peer)], dump.rank, sends ? "receive" : "send",
                            message.sequence);
        }
        waits_.try_emplace(dump.rank, Waiting{message.peer, Called(message)});
        Say("  {} waits in {} as message {} of that pair since {}; rank {}{}", Who(dump.rank), Called(message),
            message.sequence, Ago(dump, message.started_us), message.peer, other);
      }
    }
    TellCycle();
  }

  // Ranks whose messages wait for each other in a ring: a receive before the send that would answer, on each.
  void TellCycle() {
    for (const auto& [start, unused] : waits_) {
      std::vector<int> cycle{start};
      for (auto next = waits_.find(start); next != waits_.end() && cycle.size() <= waits_.size();
           next = waits_.find(next->second.peer)) {
        if (next->second.peer != start) {
          cycle.push_back(next->second.peer);
          continue;
        }
        std::string calls;
        for (const int rank : cycle) {
          calls += fmt::format("{}rank {} in {}", calls.empty() ? "" : ", ", rank, waits_.at(rank).call);
        }
        Say("  => These ranks wait for each other in a cycle: {}", calls);
        return;
      }
    }
  }

  // A wait for signals, and how many of the peer's one-sided operations are on record.
  void TellWait(const Dump& dump, const DumpedOperation& wait) {
    std::string other = ", which left no dump";
    if (wait.peer >= 0 && wait.peer < static_cast<int>(by_rank_.size()) &&
        by_rank_[static_cast<std::size_t>(wait.peer)] != nullptr) {
      const auto& theirs = by_rank_[static_cast<std::size_t>(wait.peer)]->operations;
      const auto sent = std::ranges::count_if(theirs, [&](const auto& operation) {
        return operation.peer == dump.rank && (operation.kind == "put" || operation.kind == "signal");
      });
      other = fmt::format(", whose dump lists {} puts and signals to it", sent);
    }
    Say("  {} waits in {} since {}; rank {}{}", Who(dump.rank), Called(wait), Ago(dump, wait.started_us), wait.peer,
        other);
  }

  static std::string OtherSide(const Dump& peer, int rank, const std::string& kind, std::uint64_t sequence) {
    std::uint64_t newest = 0;
    for (const auto& message : peer.operations) {
      if (message.kind != kind || message.peer != rank) continue;
      newest = std::max(newest, message.sequence);
      if (message.sequence == sequence)
        return fmt::format(" called {}{}", Called(message), message.done ? ", and is done" : "");
    }
    return newest == 0 ? fmt::format(" has called no {} for it", kind)
                       : fmt::format(", whose last call is {} {} of that pair", kind, newest);
  }

  void TellMissing() {
    std::vector<int> missing;
    for (std::size_t r = 0; r < by_rank_.size(); ++r) {
      if (by_rank_[r] == nullptr) missing.push_back(static_cast<int>(r));
    }
    for (const int rank : missing) {
      Say("  => {} left no dump: no call of its failed before its process ended, or the file is not here", Who(rank));
    }
  }

  std::vector<Dump> dumps_;
  std::vector<const Dump*> by_rank_;
  struct Waiting {
    int peer;
    std::string call;
  };
  std::map<int, Waiting> waits_;  // by rank: its first message that waits
  std::string text_;
};

}  // namespace

Dump ParseDump(const std::string& text, const std::string& file) {
  const JsonDocument document(text, file);
  const auto json = document.root();
  if (!json.IsObject() || !json.Has("tutti_dump")) json.Refuse("this is not a dump of Tutti's flight recorder");
  if (json.Whole("tutti_dump", 0, std::numeric_limits<std::uint64_t>::max()) != 1) {
    json.Refuse("this dump is of an unsupported version");
  }
  Dump dump;
  dump.communicator = NameIn(json, "communicator");
  dump.name = NameIn(json, "name");
  dump.time_us = json.Number("time_us", 0, kLatestUs);
  for (const auto& rank : json.List("ranks")) {
    const bootstrap::Process process{NameIn(rank, "host"),
                                     rank.Integer("pid", 0, std::numeric_limits<std::int64_t>::max())};
    dump.ranks.push_back(bootstrap::Describe(static_cast<int>(dump.ranks.size()), process));
  }
  if (dump.ranks.empty()) json.Refuse("the dump lists no ranks");
  const auto last = std::ssize(dump.ranks) - 1;
  dump.rank = static_cast<int>(json.Integer("rank", 0, last));
  dump.waits_for = static_cast<int>(json.Integer("waits_for", -1, last, -1));
  if (json.Has("failure")) {
    const auto failure = json.At("failure");
    dump.failure = fmt::format("{}: {}", NameIn(failure, "code"), failure.Text("text"));
  }
  for (const auto& operation : json.List("operations")) dump.operations.push_back(OperationOf(operation));
  return dump;
}

std::string Diagnose(const std::vector<Dump>& dumps) {
  std::map<std::string, std::vector<Dump>> communicators;
  for (const auto& dump : dumps) {
    auto& known = communicators[dump.communicator];
    // If a rank was dumped twice, the later dump counts.
    const auto same =
        std::find_if(known.begin(), known.end(), [&](const auto& each) { return each.rank == dump.rank; });
    if (same == known.end()) {
      known.push_back(dump);
    } else if (same->time_us < dump.time_us) {
      *same = dump;
    }
  }
  std::string text;
  for (auto& [communicator, known] : communicators) {
    if (std::any_of(known.begin(), known.end(),
                    [ranks = known.front().ranks.size()](const auto& each) { return each.ranks.size() != ranks; })) {
      Throw(tuttiInvalidArgument, "the dumps of communicator {} disagree on the number of its ranks", communicator);
    }
    std::sort(known.begin(), known.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
    if (!text.empty()) text += "\n";
    text += Case(std::move(known)).Tell();
  }
  return text;
}

}  // namespace tutti::tools
