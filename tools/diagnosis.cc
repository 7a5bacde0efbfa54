#include "tools/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "src/bootstrap/join_messages.h"

namespace tutti::tools {
namespace {

using Json = nlohmann::json;

constexpr double kUsPerSecond = 1e6;

DumpedOperation OperationOf(const Json& json) {
  DumpedOperation operation;
  operation.sequence = json.at("sequence");
  operation.call = json.at("call");
  operation.kind = json.at("kind");
  operation.signature = json.at("signature");
  operation.algorithm = json.at("algorithm");
  operation.peer = json.value("peer", -1);
  operation.started_us = json.at("started_us");
  operation.done = json.at("done");
  operation.ended_us = json.value("ended_us", 0.0);
  return operation;
}

// One communicator's dumps, one a rank.
class Case {
 public:
  explicit Case(std::vector<Dump> dumps) : dumps_(std::move(dumps)), by_rank_(dumps_.front().ranks.size()) {
    for (const auto& dump : dumps_) by_rank_[static_cast<std::size_t>(dump.rank)] = &dump;
  }

  std::string Tell() {
    const auto& first = dumps_.front();
    Say("communicator {}{}, {} ranks, {} dumps:", first.communicator.substr(0, 8),
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

  // Ranks that failed alike share a line.
  void TellFailures() {
    std::map<std::string, std::vector<int>> failures;
    for (const auto& dump : dumps_) {
      if (!dump.failure.empty()) failures[dump.failure].push_back(dump.rank);
    }
    for (const auto& [failure, ranks] : failures) Say("  {} failed: {}", DescribeRanks(ranks), failure);
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
    std::map<std::string, std::vector<int>> called;  // by call, of the furthest
    std::map<std::string, int> signatures;           // likewise: who made such a call
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
        Say("  {} is in none: its last was operation {}, {}{}, done {}", Who(dump.rank), newest->sequence, newest->call,
            by, Ago(dump, newest->ended_us));
      } else {
        Say("  {} is in operation {}, {}{}, since {}{}", Who(dump.rank), newest->sequence, newest->call, by,
            Ago(dump, newest->started_us),
            dump.waits_for < 0 ? "" : fmt::format("; it waits for {}", Who(dump.waits_for)));
      }
      if (newest->sequence < furthest) {
        late.push_back(dump.rank);
        continue;
      }
      called[newest->call].push_back(dump.rank);
      signatures.emplace(newest->signature, dump.rank);
      if (!newest->done) inside.push_back(dump.rank);
    }
    if (signatures.size() > 1) {
      std::string calls;
      for (const auto& [call, ranks] : called) {
        calls += fmt::format("{}{} called {}", calls.empty() ? "" : ", ", DescribeRanks(ranks), call);
      }
      Say("  => The calls of operation {} do not match: {}{}", furthest, calls,
          called.size() == 1 ? ", with other counts of single ranks" : "");
    } else if (!inside.empty() && !late.empty()) {
      Say("  => {} in operation {} wait{} for {}, which {} not called it", DescribeRanks(inside), furthest,
          inside.size() == 1 ? "s" : "", DescribeRanks(late), late.size() == 1 ? "has" : "have");
    } else if (!inside.empty() && dumps_.size() == by_rank_.size()) {
      Say("  => All that have not ended operation {} are in it: it is running, or the network between them is stuck",
          furthest);
    }
  }

  // Messages that have not ended, and what the other side has done of them.
  void TellMessages() {
    for (const auto& dump : dumps_) {
      for (const auto& message : dump.operations) {
        if (message.kind == "collective" || message.done) continue;
        const bool sends = message.kind == "send";
        std::string other = "of which there is no dump";
        if (message.peer >= 0 && message.peer < static_cast<int>(by_rank_.size()) &&
            by_rank_[static_cast<std::size_t>(message.peer)] != nullptr) {
          other = OtherSide(*by_rank_[static_cast<std::size_t>(message.peer)], dump.rank, sends ? "receive" : "send",
                            message.sequence);
        }
        Say("  {} waits in {} as message {} of that pair since {}; rank {}, {}", Who(dump.rank), message.call,
            message.sequence, Ago(dump, message.started_us), message.peer, other);
      }
    }
  }

  static std::string OtherSide(const Dump& peer, int rank, const std::string& kind, std::uint64_t sequence) {
    std::uint64_t newest = 0;
    for (const auto& message : peer.operations) {
      if (message.kind != kind || message.peer != rank) continue;
      newest = std::max(newest, message.sequence);
      if (message.sequence == sequence)
        return fmt::format("called {}{}", message.call, message.done ? ", and is done" : "");
    }
    return newest == 0 ? fmt::format("has called no {} for it", kind)
                       : fmt::format("has come to {} {} of that pair", kind, newest);
  }

  void TellMissing() {
    std::vector<int> missing;
    for (std::size_t r = 0; r < by_rank_.size(); ++r) {
      if (by_rank_[r] == nullptr) missing.push_back(static_cast<int>(r));
    }
    for (const int rank : missing) {
      Say("  => {} left no dump: its process ended before it could, or the file is not here", Who(rank));
    }
  }

  std::vector<Dump> dumps_;
  std::vector<const Dump*> by_rank_;
  std::string text_;
};

}  // namespace

Dump ParseDump(const std::string& text, const std::string& file) {
  try {
    const auto json = Json::parse(text);
    if (json.at("tutti_dump") != 1) Throw(tuttiInvalidArgument, "{} is a dump of another version", file);
    Dump dump;
    dump.communicator = json.at("communicator");
    dump.name = json.at("name");
    dump.rank = json.at("rank");
    dump.time_us = json.at("time_us");
    for (const auto& rank : json.at("ranks")) {
      dump.ranks.push_back(
          Describe(static_cast<int>(dump.ranks.size()), Process{rank.at("host"), rank.at("pid").get<std::int64_t>()}));
    }
    if (const auto failure = json.find("failure"); failure != json.end()) {
      dump.failure =
          fmt::format("{}: {}", failure->at("code").get<std::string>(), failure->at("text").get<std::string>());
    }
    dump.waits_for = json.value("waits_for", -1);
    for (const auto& operation : json.at("operations")) dump.operations.push_back(OperationOf(operation));
    const int n = static_cast<int>(dump.ranks.size());
    if (dump.rank < 0 || dump.rank >= n || dump.waits_for < -1 || dump.waits_for >= n) {
      Throw(tuttiInvalidArgument, "{} names a rank that is not one of its {}", file, n);
    }
    return dump;
  } catch (const Json::exception& exception) {
    Throw(tuttiInvalidArgument, "{} is no dump of Tutti's flight recorder: {}", file, exception.what());
  }
}

std::string Diagnose(const std::vector<Dump>& dumps) {
  std::map<std::string, std::vector<Dump>> communicators;
  for (const auto& dump : dumps) {
    auto& known = communicators[dump.communicator];
    // A rank may have been dumped twice: the later counts.
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
                    [&](const auto& each) { return each.ranks.size() != known.front().ranks.size(); })) {
      Throw(tuttiInvalidArgument, "the dumps of communicator {} disagree on the number of its ranks", communicator);
    }
    std::sort(known.begin(), known.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
    if (!text.empty()) text += "\n";
    text += Case(std::move(known)).Tell();
  }
  return text;
}

}  // namespace tutti::tools
