#include "src/bootstrap/job_source.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/error.h"
#include "base/log.h"
#include "src/bootstrap/handshake.h"
#include "src/bootstrap/interfaces.h"

namespace tutti {
namespace {

// Equal on all ranks of a job, different for the next one. Not WORLD_SIZE: ranks that disagree on it must meet to be
// told.
constexpr std::array<std::string_view, 3> kJobFacts = {"TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "SLURM_STEP_ID"};

JoinTicket MakeTicket(std::string_view variable, const HostPort& place, const Settings& settings,
                      const Lookup& environment) {
  JoinTicket ticket;
  ticket.served_by_rank0 = true;
  ticket.addresses = Resolve(variable, place, settings.socket_family);
  const bool numeric = SocketAddress::Parse(place.host, place.port).has_value();
  ticket.listen_everywhere = !numeric && place.host != "localhost";

  ByteWriter facts;
  facts.Number(place.port);
  for (const auto name : kJobFacts) {
    constexpr std::size_t kLongestFact = 4096;
    facts.Text(environment(name).value_or(""), kLongestFact);
  }
  const auto password = DeriveKey(SecretKey(), "tutti password", {BytesOf(settings.secret)});
  ticket.secret = DeriveKey(password, "tutti job secret", {facts.bytes()});
  ticket.job = KeyedHash<sizeof(ticket.job)>(ticket.secret, "tutti job", {});
  const bool local = std::ranges::all_of(ticket.addresses, [](const auto& address) { return address.IsLoopback(); });
  if (settings.secret.empty() && !local) {
    Log(Subject::init,
        "warning: TUTTI_SECRET is not set, so anybody who can reach {} and guess this job's name can join it; set it "
        "to "
        "the same long random text on all ranks",
        TextOf(ticket.addresses));
  }
  return ticket;
}

std::string Required(const Lookup& environment, std::string_view name) {
  const auto value = environment(name);
  if (!value || value->empty()) {
    Throw(tuttiInvalidUsage, "{} is {}; RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT must be set (as torchrun does)",
          name, value ? "empty" : "not set");
  }
  return *value;
}

int RequiredNumber(const Lookup& environment, std::string_view name, int low, int high) {
  const auto text = Required(environment, name);
  int value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    Throw(tuttiInvalidUsage, "{}=\"{}\" is not allowed: it takes a whole number from {} to {}", name, text, low, high);
  }
  return value;
}

}  // namespace

JoinTicket TicketFromCommId(const Settings& settings, const Lookup& environment) {
  return MakeTicket("TUTTI_COMM_ID", ParseHostPort("TUTTI_COMM_ID", settings.comm_id), settings, environment);
}

EnvironmentTicket TicketFromEnvironment(const Settings& settings, const Lookup& environment) {
  EnvironmentTicket result;
  result.nranks = RequiredNumber(environment, "WORLD_SIZE", 1, static_cast<int>(kMaxRanks));
  result.rank = RequiredNumber(environment, "RANK", 0, result.nranks - 1);
  const bool port_taken = environment("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
  const int port = RequiredNumber(environment, "MASTER_PORT", 1, port_taken ? 65534 : 65535) + (port_taken ? 1 : 0);
  const auto host = Required(environment, "MASTER_ADDR");
  result.ticket = MakeTicket("MASTER_ADDR", {host, static_cast<std::uint16_t>(port)}, settings, environment);
  return result;
}

Lookup ProcessEnvironment() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* text = std::getenv(std::string(name).c_str());
    return text != nullptr ? std::optional<std::string>(text) : std::nullopt;
  };
}

}  // namespace tutti
