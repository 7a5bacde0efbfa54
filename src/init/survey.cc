#include "src/init/survey.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/all_gather.h"
#include "base/error.h"
#include "base/files/files.h"
#include "base/log.h"
#include "src/bootstrap/control_plane.h"
#include "topology/detect/detect.h"
#include "topology/xml/fuse.h"
#include "topology/xml/xml.h"

namespace tutti::init {
namespace {

// First byte of a rank's answer: a topology follows, or the reason for its absence.
constexpr char kFound = 'T';
constexpr char kFailed = 'E';

topology::System OwnHost(const Settings& settings) {
  if (settings.topo_file.empty()) return detect::DetectHost();
  const topology::HostDescription detected = detect::DescribeHost();
  xml::TopologyFile file = xml::ReadTopologyFile(settings.topo_file, &detected);
  for (const auto& note : file.notes) Log(Subject::init, "{}: {}", settings.topo_file, note);
  return std::move(file.system);
}

void Dump(const topology::System& system, const std::string& path) {
  try {
    WriteFile(path, xml::WriteTopology(system));
  } catch (const Error& error) {
    Throw(error.code(), "TUTTI_TOPO_DUMP_FILE: {}", error.what());
  }
}

std::string OwnAnswer(const Settings& settings) {
  try {
    const topology::System system = OwnHost(settings);
    if (!settings.topo_dump.empty()) Dump(system, settings.topo_dump);
    auto answer = kFound + xml::Serialize(system);
    if (answer.size() > bootstrap::ControlPlane::kMaxBlob) {
      Throw(tuttiInvalidArgument, "{}: all ranks need this topology, and it takes {} bytes; the limit is {}",
            settings.topo_file.empty() ? "the detected topology" : "TUTTI_TOPO_FILE=" + settings.topo_file,
            answer.size(), bootstrap::ControlPlane::kMaxBlob);
    }
    return answer;
  } catch (const Error& error) {
    return kFailed + std::string(error.what());
  }
}

}  // namespace

topology::System Survey(const Meeting& meeting) {
  const auto& host_of = meeting.hosts.host_of;
  const auto leads = [&](std::size_t r) {
    return std::find(host_of.begin(), host_of.begin() + r, host_of[r]) == host_of.begin() + r;
  };
  const std::string mine = leads(static_cast<std::size_t>(meeting.rank)) ? OwnAnswer(meeting.settings) : std::string();
  const auto answers = meeting.all_gather(std::as_bytes(std::span(mine)));
  std::vector<topology::System> parts;
  for (std::size_t r = 0; r < answers.size(); ++r) {
    if (!leads(r)) continue;
    const std::string_view answer(reinterpret_cast<const char*>(answers[r].data()), answers[r].size());
    const std::string sender = fmt::format("rank {} ({}, {})", r, meeting.roster[r].host, host_of[r]);
    if (answer.empty()) Throw(tuttiInternalError, "{} did not send its topology", sender);
    if (answer.front() == kFailed) Throw(tuttiInvalidArgument, "{}: {}", sender, answer.substr(1));
    parts.push_back(xml::Deserialize(answer.substr(1), sender));
  }
  return xml::Fuse(parts);
}

std::string Summary(const topology::System& system) {
  const auto count = [&](topology::DeviceKind kind) { return system.All(kind).size(); };
  const auto plural = [](std::size_t n, std::string_view what) {
    return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
  };
  return fmt::format("{}, {}, {} on {}", plural(count(topology::DeviceKind::cpu), "CPU"),
                     plural(count(topology::DeviceKind::gpu), "GPU"), plural(count(topology::DeviceKind::nic), "NIC"),
                     plural(static_cast<std::size_t>(system.hosts()), "host"));
}

}  // namespace tutti::init
