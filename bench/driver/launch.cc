#include "bench/driver/launch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <thread>

#include "base/settings/nearest_name.h"
#include "base/usage_error.h"

namespace tutti::bench {
namespace {

namespace fs = std::filesystem;

struct Peer {
  std::string name;
  std::string worker;                  // executable next to tutti-bench, built if the library was found
  std::vector<std::string> launchers;  // names to look up in PATH, best first; none: started directly
  std::vector<std::string> arguments;  // of the launcher
  std::vector<std::string> on_hosts;   // likewise, when called by cluster.sh, which adds what all launchers need
  std::string folder = {};             // of scripts/measure/peers.sh: the launchers are looked up there, not in PATH
};

const std::vector<Peer>& Peers() {
  // Ranks pin themselves, so that every library has the same placement. Over UCX, Open MPI must be told to accept
  // shared memory as the only transport.
  static const std::vector<std::string> kOversubscribe = {"--oversubscribe"};
  static const std::vector<std::string> kOpenMpi = {"--oversubscribe", "--bind-to", "none"};
  static const std::vector<std::string> kUcx = {
      "--mca", "pml", "ucx", "--mca", "opal_common_ucx_tls", "any", "--mca", "opal_common_ucx_devices", "any"};
  const auto with = [](std::vector<std::string> some, const std::vector<std::string>& more) {
    some.insert(some.end(), more.begin(), more.end());
    return some;
  };
  static const std::vector<Peer> kPeers = {
      {"openmpi", "tutti-peer-openmpi", {"mpirun.openmpi", "mpirun"}, kOpenMpi, kOversubscribe},
      {"openmpi-ucx",
       "tutti-peer-openmpi",
       {"mpirun.openmpi", "mpirun"},
       with(kOpenMpi, kUcx),
       with(with(kOversubscribe, kUcx), {"-x", "UCX_TLS=tcp,sm,self"})},
      {"mpich", "tutti-peer-mpich", {"mpiexec.hydra", "mpirun.mpich", "mpirun"}, {}, {}},
      {"impi", "tutti-peer-impi", {"mpiexec.hydra"}, {}, {}, "impi"},
      {"mpich5", "tutti-peer-mpich5", {"mpiexec"}, {}, {}, "mpich5"},
      {"openmpi5", "tutti-peer-openmpi5", {"mpirun"}, kOpenMpi, kOversubscribe, "openmpi5"},
      {"gloo", "tutti-peer-gloo", {}, {}, {}},
      {kFlat, "tutti-peer-flat", {}, {}, {}},
      {kNccl, "tutti-peer-nccl", {}, {}, {}},
  };
  return kPeers;
}

const Peer& PeerNamed(const std::string& name) {
  std::vector<std::string_view> names;
  for (const Peer& peer : Peers()) {
    if (peer.name == name) return peer;
    names.push_back(peer.name);
  }
  names.emplace_back("all");
  throw UsageError(UnknownName("--vs: peer", name, names));
}

std::string FindInPath(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream directories(path != nullptr ? path : "/usr/bin:/bin");
  for (std::string directory; std::getline(directories, directory, ':');) {
    const std::string candidate = directory + "/" + program;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return {};
}

std::string LauncherOf(const Peer& peer) {
  for (const std::string& launcher : peer.launchers) {
    if (!peer.folder.empty()) {
      const fs::path path = fs::path(OwnDirectory()) / TUTTI_PEERS / peer.folder / "bin" / launcher;
      return ::access(path.c_str(), X_OK) == 0 ? path.lexically_normal().string() : std::string();
    }
    if (std::string found = FindInPath(launcher); !found.empty()) return found;
  }
  return {};
}

}  // namespace

std::vector<std::string> KnownPeers() {
  std::vector<std::string> names;
  for (const Peer& peer : Peers()) names.push_back(peer.name);
  return names;
}

std::string OwnDirectory() { return fs::read_symlink("/proc/self/exe").parent_path(); }

std::string WhyMissing(const std::string& library) {
  if (library == kTutti) return {};
  const Peer& peer = PeerNamed(library);
  if (!fs::exists(fs::path(OwnDirectory()) / peer.worker)) {
    return fmt::format("{} was not built: its library's headers were missing when the build was configured",
                       peer.worker);
  }
  if (!peer.launchers.empty() && LauncherOf(peer).empty()) {
    return fmt::format("no {} in {}", peer.launchers[0],
                       peer.folder.empty() ? "PATH" : "the folder of scripts/measure/peers.sh");
  }
  return {};
}

bool RunsInThreads(const std::string& library) { return library == kTutti || library == kNccl; }

std::vector<std::string> ResolvePeers(const std::vector<std::string>& names, bool device) {
  const auto why_not = [&](const std::string& name) -> std::string {
    if (device && name != kNccl) return "it can be measured on host memory only";
    if (!device && name == kNccl) return "it moves GPU memory only: add --memory device";
    return WhyMissing(PeerNamed(name).name);
  };
  std::vector<std::string> peers;
  const auto add = [&](const std::string& name) {
    if (std::find(peers.begin(), peers.end(), name) == peers.end()) peers.push_back(name);
  };
  for (const std::string& name : names) {
    if (name == "all") {
      for (const std::string& known : KnownPeers()) {
        if (why_not(known).empty()) add(known);
      }
    } else if (const std::string why = why_not(PeerNamed(name).name); !why.empty()) {
      ThrowUsage("--vs {}: {}", name, why);
    } else {
      add(name);
    }
  }
  return peers;
}

namespace {

// cluster.sh starts the ranks, by itself or through the library's launcher, whose options come first.
std::vector<std::string> ClusterCommand(const Peer* peer, const std::string& worker, int ranks,
                                        const ClusterShape& cluster) {
  // Relative to this executable, as built and as installed.
  std::vector<std::string> command = {(fs::path(OwnDirectory()) / TUTTI_CLUSTER_SCRIPT).lexically_normal(),
                                      "--hosts",
                                      std::to_string(cluster.hosts),
                                      "--ranks-per-host",
                                      std::to_string(ranks / cluster.hosts),
                                      "--nics",
                                      std::to_string(cluster.nics)};
  if (!cluster.bandwidth.empty()) command.insert(command.end(), {"--bandwidth", cluster.bandwidth});
  if (peer != nullptr && !peer->launchers.empty()) command.insert(command.end(), {"--launcher", LauncherOf(*peer)});
  command.emplace_back("--");
  if (peer != nullptr) command.insert(command.end(), peer->on_hosts.begin(), peer->on_hosts.end());
  command.push_back(worker);
  return command;
}

}  // namespace

std::vector<std::vector<std::string>> CommandsFor(const std::string& library, int ranks, int threads,
                                                  const ClusterShape& cluster) {
  const Peer* const peer = library == kTutti ? nullptr : &PeerNamed(library);
  const std::string own = cluster.hosts > 1 ? fs::read_symlink("/proc/self/exe").string() : "/proc/self/exe";
  const std::string worker = peer == nullptr ? own : (fs::path(OwnDirectory()) / peer->worker).string();
  if (cluster.hosts > 1) return {ClusterCommand(peer, worker, ranks, cluster)};
  if (peer == nullptr || peer->launchers.empty()) {
    return std::vector<std::vector<std::string>>(static_cast<std::size_t>(ranks / threads), {worker});
  }
  std::vector<std::string> command = {LauncherOf(*peer)};
  command.insert(command.end(), peer->arguments.begin(), peer->arguments.end());
  command.insert(command.end(), {"-np", std::to_string(ranks), worker});
  return {command};
}

Environment EnvironmentFor(const std::string& library, int ranks, int hosts) {
  // In containers Open MPI refuses to run as root unless told twice.
  if (library.starts_with("openmpi")) {
    return {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
  }
  if (library == "impi" && hosts == 1) {
    // Ranks pin themselves. With more ranks than cores, Intel MPI must be told to yield, or each wait costs a time slice.
    Environment environment = {{"I_MPI_FABRICS", "shm"}, {"I_MPI_PIN", "0"}};
    if (ranks > static_cast<int>(std::thread::hardware_concurrency())) {
      environment.emplace_back("I_MPI_THREAD_YIELD", "2");
    }
    return environment;
  }
  return {};
}

}  // namespace tutti::bench
