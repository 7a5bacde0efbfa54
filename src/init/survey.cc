#include "src/init/survey.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "topology/detect/detect.h"
#include "topology/xml/fuse.h"
#include "topology/xml/xml.h"

namespace tutti {
namespace {

// First byte of a rank's answer: a topology follows, or the reason for its absence.
constexpr char kFound = 'T';
constexpr char kFailed = 'E';

System OwnHost(const Settings& settings) {
  if (settings.topo_file.empty()) return DetectHost();
  const HostDescription detected = DescribeHost();
  TopologyFile file = ReadTopologyFile(settings.topo_file, &detected);
  for (const auto& note : file.notes) Log(Subject::init, "{}: {}", settings.topo_file, note);
  return std::move(file.system);
}

void Dump(const System& system, const std::string& path) {
  try {
    WriteFile(path, WriteTopology(system));
  } catch (const Error& error) {
    Throw(error.code(), "TUTTI_TOPO_DUMP_FILE: {}", error.what());
  }
}

std::string OwnAnswer(const Settings& settings) {
  try {
    const System system = OwnHost(settings);
    if (!settings.topo_dump.empty()) Dump(system, settings.topo_dump);
    return kFound + Serialize(system);
  } catch (const Error& error) {
    return kFailed + std::string(error.what());
  }
}

}  // namespace

System Survey(const Settings& settings, int rank, const std::vector<std::string>& hosts, const AllGather& all_gather) {
  const auto leads = [&](std::size_t r) {
    return std::find(hosts.begin(), hosts.begin() + r, hosts[r]) == hosts.begin() + r;
  };
  const std::string mine = leads(static_cast<std::size_t>(rank)) ? OwnAnswer(settings) : std::string();
  const auto answers = all_gather(std::as_bytes(std::span(mine)));
  std::vector<System> parts;
  for (std::size_t r = 0; r < answers.size(); ++r) {
    if (!leads(r)) continue;
    const std::string_view answer(reinterpret_cast<const char*>(answers[r].data()), answers[r].size());
    const std::string sender = fmt::format("rank {} ({})", r, hosts[r]);
    if (answer.empty()) Throw(tuttiInternalError, "{} sent no topology", sender);
    if (answer.front() == kFailed) Throw(tuttiInvalidArgument, "{}: {}", sender, answer.substr(1));
    parts.push_back(Deserialize(answer.substr(1), sender));
  }
  return Fuse(parts);
}

std::string Summary(const System& system) {
  const auto count = [&](DeviceKind kind) { return system.All(kind).size(); };
  const auto plural = [](std::size_t n, std::string_view what) {
    return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
  };
  return fmt::format("{}, {}, {} on {}", plural(count(DeviceKind::cpu), "CPU"), plural(count(DeviceKind::gpu), "GPU"),
                     plural(count(DeviceKind::nic), "NIC"), plural(static_cast<std::size_t>(system.hosts()), "host"));
}

}  // namespace tutti
