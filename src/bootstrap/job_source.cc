#include "src/bootstrap/job_source.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>

#include "base/error.h"
#include "base/plain_text.h"
#include "net/auth/handshake.h"
#include "net/interfaces.h"
#include "src/bootstrap/job_secret.h"
#include "src/bootstrap/local_job.h"
#include "src/bootstrap/rendezvous/rendezvous.h"

namespace tutti::bootstrap {
namespace {

// Equal on all ranks of a job, different for the next job. Not WORLD_SIZE: ranks that disagree on it must meet to learn
// that.
constexpr std::array<std::string_view, 3> kJobFacts = {"TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "SLURM_STEP_ID"};

constexpr std::size_t kLongestFact = 4096;

// `variable`: where the place comes from, for messages. `job`: one more fact.
JoinTicket MakeTicket(std::string_view variable, const net::HostPort& place, const Settings& settings,
                      const Lookup& environment, std::string_view job = {}) {
  JoinTicket ticket;
  ticket.served_by_rank0 = true;
  ticket.addresses = net::Resolve(variable, place, settings.socket_family);
  const bool numeric = net::SocketAddress::Parse(place.host, place.port).has_value();
  ticket.listen_everywhere = !numeric && place.host != "localhost";

  net::ByteWriter facts;
  facts.Number(place.port);
  for (const auto name : kJobFacts) facts.Text(environment(name).value_or(""), kLongestFact);
  if (!job.empty()) facts.Text(job, kLongestFact);
  // If rank 0 listens on all its addresses, its name may mean loopback only on its own machine.
  if (settings.secret.empty() && !ticket.StaysOnLoopback()) {
    Throw(tuttiInvalidUsage,
          "TUTTI_SECRET is not set, and {}={} is not loopback: any process that can reach {} could join this job. Set "
          "TUTTI_SECRET to the same random text on all ranks, for example the output of: head -c 32 /dev/urandom | "
          "base64",
          variable, place.host, net::TextOf(ticket.addresses));
  }
  ticket.secret = KeyOfSecret(settings.secret, facts.bytes());
  ticket.job = auth::KeyedHash<sizeof(ticket.job)>(ticket.secret, "tutti job", {});
  return ticket;
}

// The launchers' names for the rank and the number of ranks.
struct Launcher {
  std::string_view rank, size;
};
constexpr Launcher kLaunchers[] = {{"RANK", "WORLD_SIZE"},  // torchrun
                                   {"SLURM_PROCID", "SLURM_NTASKS"},
                                   {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                   {"PMI_RANK", "PMI_SIZE"}};  // MPICH

bool IsSet(const Lookup& environment, std::string_view name) { return !environment(name).value_or("").empty(); }

// nullopt: this process is a job of one rank.
std::optional<Launcher> FindLauncher(const Settings& settings, const Lookup& environment) {
  for (const auto& launcher : kLaunchers) {
    if (!environment(launcher.rank)) continue;
    // Slurm's batch scripts and interactive shells have SLURM_PROCID, too. Only srun counts a step's tasks.
    if (launcher.rank == "SLURM_PROCID" && !IsSet(environment, "SLURM_STEP_NUM_TASKS")) continue;
    return launcher;
  }
  std::string_view other = settings.comm_id.empty() ? "" : "TUTTI_COMM_ID";
  for (const std::string_view name : {"WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    if (IsSet(environment, name)) other = name;
  }
  if (other.empty()) return std::nullopt;
  Throw(
      tuttiInvalidUsage,
      "RANK is not set, but {} is; set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT (as torchrun does), or start the "
      "ranks with srun or mpirun, which set SLURM_PROCID, OMPI_COMM_WORLD_RANK or PMI_RANK; without any of them this "
      "process is a job of one rank",
      other);
}

std::string Required(const Lookup& environment, std::string_view name) {
  const auto value = environment(name);
  if (!value || value->empty()) {
    Throw(tuttiInvalidUsage,
          "{} is {}; the ranks meet at MASTER_ADDR and MASTER_PORT (as torchrun sets them), or at "
          "TUTTI_COMM_ID=host:port",
          name, value ? "empty" : "not set");
  }
  return *value;
}

int RequiredNumber(const Lookup& environment, std::string_view name, int low, int high) {
  const auto text = Required(environment, name);
  int value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    Throw(tuttiInvalidUsage, "{}={} is not allowed: it takes a whole number from {} to {}", name, Quoted(text), low,
          high);
  }
  return value;
}

// A port that other jobs are unlikely to use, below Linux's ephemeral ports (from 32768 on).
std::uint16_t PortOf(std::uint64_t job) {
  constexpr std::uint64_t kFirstPort = 15'000, kPorts = 15'000;
  return static_cast<std::uint16_t>(kFirstPort + job % kPorts);
}

// On the job's first host.
net::HostPort SlurmMeetingPlace(const Lookup& environment) {
  const auto nodes = environment("SLURM_STEP_NODELIST").value_or(Required(environment, "SLURM_JOB_NODELIST"));
  constexpr std::uint64_t kStepsApart = 97;
  const int job = RequiredNumber(environment, "SLURM_JOB_ID", 0, std::numeric_limits<int>::max());
  const int step = IsSet(environment, "SLURM_STEP_ID")
                       ? RequiredNumber(environment, "SLURM_STEP_ID", 0, std::numeric_limits<int>::max())
                       : 0;
  return {FirstSlurmHost(nodes),
          PortOf(static_cast<std::uint64_t>(job) + static_cast<std::uint64_t>(step) * kStepsApart)};
}

JoinTicket LocalTicket(std::string_view job, const Settings& settings, const Lookup& environment) {
  net::ByteWriter name;
  name.Text(job, kLongestFact);
  const auto hash = auth::KeyedHash<16>(KeyOfSecret({}, {}), "tutti local job", {name.bytes()});
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < sizeof number; ++i) number = number << 8 | static_cast<std::uint64_t>(hash[i]);
  return MakeTicket("MASTER_ADDR", {"127.0.0.1", PortOf(number)}, settings, environment, job);
}

}  // namespace

std::string FirstSlurmHost(std::string_view nodes) {
  std::string host;
  for (std::size_t i = 0; i < nodes.size() && nodes[i] != ','; ++i) {
    if (nodes[i] != '[') {
      host += nodes[i];
      continue;
    }
    const auto close = nodes.find(']', i);
    if (close == std::string_view::npos) break;
    const auto choices = nodes.substr(i + 1, close - i - 1);
    host += choices.substr(0, choices.find_first_of("-,"));
    i = close;
  }
  return host;
}

JoinTicket TicketFromCommId(const Settings& settings, const Lookup& environment) {
  return MakeTicket("TUTTI_COMM_ID", net::ParseHostPort("TUTTI_COMM_ID", settings.comm_id), settings, environment);
}

EnvironmentTicket TicketFromEnvironment(const Settings& settings, const Lookup& environment) {
  const auto launcher = FindLauncher(settings, environment);
  if (!launcher) return {OpenRendezvous(settings), 0, 1};
  EnvironmentTicket result;
  result.nranks = RequiredNumber(environment, launcher->size, 1, static_cast<int>(auth::kMaxRanks));
  result.rank = RequiredNumber(environment, launcher->rank, 0, result.nranks - 1);
  const bool has_place = IsSet(environment, "MASTER_ADDR");
  std::optional<std::string> local_job;
  if (!has_place && !settings.comm_id.empty()) {
    result.ticket = TicketFromCommId(settings, environment);
  } else if (!has_place && launcher->rank == "SLURM_PROCID") {
    result.ticket = MakeTicket("SLURM_JOB_NODELIST", SlurmMeetingPlace(environment), settings, environment);
  } else if (!has_place && (local_job = NameOfLocalJob(launcher->rank, environment))) {
    result.ticket = LocalTicket(*local_job, settings, environment);
  } else {
    const bool port_taken = environment("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
    const int port = RequiredNumber(environment, "MASTER_PORT", 1, port_taken ? 65534 : 65535) + (port_taken ? 1 : 0);
    const auto host = Required(environment, "MASTER_ADDR");
    result.ticket = MakeTicket("MASTER_ADDR", {host, static_cast<std::uint16_t>(port)}, settings, environment);
  }
  return result;
}

Lookup ProcessEnvironment() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* text = std::getenv(std::string(name).c_str());
    return text != nullptr ? std::optional<std::string>(text) : std::nullopt;
  };
}

}  // namespace tutti::bootstrap
