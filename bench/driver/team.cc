#include "bench/driver/team.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "bench/driver/launch.h"

namespace tutti::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Milliseconds kFarewell{5000};  // time for a library to shut down cleanly
constexpr int kLinesOfOutput = 8;

Milliseconds Until(Clock::time_point deadline) {
  return std::max(Milliseconds(0), std::chrono::duration_cast<Milliseconds>(deadline - Clock::now()));
}

struct Complaint {
  std::size_t rank;
  std::string text;
};

// Ranks with the same complaint share a clause.
std::string Join(const std::vector<Complaint>& complaints) {
  std::vector<std::pair<std::string, std::vector<std::size_t>>> clauses;
  for (const Complaint& complaint : complaints) {
    const auto same = std::find_if(clauses.begin(), clauses.end(),
                                   [&](const auto& clause) { return clause.first == complaint.text; });
    if (same != clauses.end()) {
      same->second.push_back(complaint.rank);
    } else {
      clauses.push_back({complaint.text, {complaint.rank}});
    }
  }
  std::string joined;
  for (const auto& [text, ranks] : clauses) {
    joined += fmt::format("{}rank {}{}", joined.empty() ? "" : "\n  ", fmt::join(ranks, ", "), text);
  }
  return joined;
}

}  // namespace

Team::Team(const std::string& library, int ranks, int threads, const ClusterShape& cluster,
           const CallSettings& settings, Milliseconds timeout)
    : library_(library), threads_(threads) {
  // Cluster hosts share this machine's files, but not its abstract socket names.
  Listener listener(cluster.hosts > 1 ? Listener::Place::file : Listener::Place::name);
  WorkerOrders orders{listener.name(), 0, ranks, threads, settings};
  for (const std::vector<std::string>& command : CommandsFor(library, ranks, threads, cluster)) {
    const auto output = library == kTutti ? Process::Output::show : Process::Output::keep;
    Environment environment = EnvironmentFor(library, ranks, cluster.hosts);
    environment.emplace_back(kOrdersVariable, ToJson(orders).dump());
    processes_.push_back(std::make_unique<Process>(command, environment, output));
    orders.first_rank += threads;
  }
  Assemble(listener, ranks, timeout);
}

Team::Team(const std::string& library, int ranks, Listener& listener, Milliseconds timeout) : library_(library) {
  Assemble(listener, ranks, timeout);
}

std::unique_ptr<Team> Team::Refused(const std::string& library, const std::string& why) {
  std::unique_ptr<Team> team(new Team(library));
  team->refusal_ = why;
  return team;
}

Team::~Team() {
  for (ControlSocket& socket : sockets_) {
    try {
      if (alive_) socket.Send({{"do", "quit"}});
    } catch (const std::exception&) {
      // The rank ended first.
    }
  }
  const auto deadline = Clock::now() + kFarewell;
  for (const auto& process : processes_) {
    if (alive_) process->Outcome(Until(deadline));
  }
  sockets_.clear();  // hangs up on the remaining ranks
}

void Team::Assemble(Listener& listener, int ranks, Milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  std::vector<std::optional<ControlSocket>> by_rank(static_cast<std::size_t>(ranks));
  Json offers = Json::array();
  pids_.resize(by_rank.size());
  for (int i = 0; i < ranks; ++i) offers.push_back(Json::binary({}));
  for (int come = 0; come < ranks;) {
    constexpr Milliseconds kGlance{100};
    std::optional<ControlSocket> socket = listener.Accept(std::min(kGlance, Until(deadline)));
    if (!socket) {
      for (const auto& process : processes_) {
        if (const auto outcome = process->Outcome(Milliseconds(0))) {
          Lose(fmt::format("process {} {} before it was ready", process->pid(), *outcome));
        }
      }
      if (Clock::now() >= deadline) {
        Lose(fmt::format("only {} of {} ranks started within {} s", come, ranks, timeout.count() / 1000));
      }
      continue;
    }
    // A rank says hello as soon as it connects. Its library may take long to start, but then the whole team does.
    if (WaitForAny({&*socket}, Until(deadline)).empty()) Lose("a rank connected but sent no message");
    const std::optional<Json> hello = socket->Receive();
    if (!hello) Lose("a rank ended while its library started");
    if (hello->contains("error")) Lose(hello->at("error"));
    const int rank = hello->at("rank");
    if (hello->at("ranks") != ranks || rank < 0 || rank >= ranks || by_rank[static_cast<std::size_t>(rank)]) {
      Lose(fmt::format("a rank announced itself as rank {} of {}, but {} ranks are expected", rank,
                       hello->at("ranks").get<int>(), ranks));
    }
    offers[static_cast<std::size_t>(rank)] = hello->at("offer");
    pids_[static_cast<std::size_t>(rank)] = hello->at("pid");
    by_rank[static_cast<std::size_t>(rank)] = std::move(socket);
    ++come;
  }
  for (auto& socket : by_rank) sockets_.push_back(std::move(*socket));
  alive_ = true;
  const std::vector<Json> replies = Ask({{"offers", std::move(offers)}}, Until(deadline));
  about_ = replies.front().value("about", "");
  for (const Json& ready : replies) {
    init_ms_ = std::max(init_ms_, ready.at("init_us").get<double>() / 1000);
  }
}

std::vector<Json> Team::Ask(const Json& request, Milliseconds timeout) {
  if (!alive_) throw TeamLost(fmt::format("{} had already failed", library_));
  for (std::size_t rank = 0; rank < sockets_.size(); ++rank) {
    try {
      sockets_[rank].Send(request);
    } catch (const std::exception&) {
      Lose(Join({{rank, WhyGone(rank)}}));
    }
  }
  return Collect(timeout);
}

std::vector<Json> Team::Collect(Milliseconds timeout) {
  std::vector<std::optional<Json>> replies(sockets_.size());
  std::vector<Complaint> complaints;
  bool any_gone = false;
  auto deadline = Clock::now() + timeout;
  for (;;) {
    std::vector<std::size_t> waited;
    std::vector<const ControlSocket*> waited_sockets;
    for (std::size_t rank = 0; rank < sockets_.size(); ++rank) {
      if (replies[rank]) continue;
      waited.push_back(rank);
      waited_sockets.push_back(&sockets_[rank]);
    }
    if (waited.empty()) break;
    const std::vector<std::size_t> ready = WaitForAny(waited_sockets, Until(deadline));
    if (ready.empty()) {
      if (complaints.empty()) {
        complaints.push_back(
            {waited[0], fmt::format(" (pid {}) gave no answer within {} s", pids_[waited[0]], timeout.count() / 1000)});
      }
      break;
    }
    for (const std::size_t index : ready) {
      const std::size_t rank = waited[index];
      replies[rank] = sockets_[rank].Receive();
      const bool gone = !replies[rank];
      if (gone) replies[rank] = Json::object();
      if (!gone && !replies[rank]->contains("error")) continue;
      // The first rank to go may take others down: only what those report is new.
      if (!gone) {
        complaints.push_back({rank, fmt::format(": {}", replies[rank]->at("error").get<std::string>())});
      } else if (!any_gone) {
        complaints.push_back({rank, WhyGone(rank)});
      }
      any_gone |= gone;
      deadline = std::min(deadline, Clock::now() + kLastWords);
    }
  }
  if (!complaints.empty()) Lose(Join(complaints));
  std::vector<Json> result;
  for (auto& reply : replies) result.push_back(std::move(*reply));
  return result;
}

std::string Team::WhyGone(std::size_t rank) {
  const std::size_t process = rank / static_cast<std::size_t>(threads_);
  const bool by_launcher = processes_.size() * static_cast<std::size_t>(threads_) != sockets_.size();
  if (by_launcher) return fmt::format(" (pid {}) is gone", pids_[rank]);
  const auto outcome = processes_[process]->Outcome(Milliseconds(500));
  return fmt::format(" (pid {}) {}", pids_[rank], outcome.value_or("is gone"));
}

void Team::Lose(const std::string& why) {
  alive_ = false;
  std::string message = fmt::format("{}: {}", library_, why);
  if (processes_.empty()) {  // the ranks of a job end themselves
    for (ControlSocket& socket : sockets_) {
      try {
        socket.Send({{"do", "quit"}, {"why", message.substr(0, message.find('\n'))}});
      } catch (const std::exception&) {
        // This rank is gone.
      }
    }
  }
  sockets_.clear();
  for (const auto& process : processes_) {
    process->End();
    const std::string lines = process->LastLines(kLinesOfOutput);
    if (!lines.empty()) message += fmt::format("\n  its last output:\n{}", lines);
  }
  throw TeamLost(message);
}

}  // namespace tutti::bench
