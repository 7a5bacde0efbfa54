#include "transports/shm/hosts.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>

#include "base/all_gather.h"
#include "base/error.h"

namespace tutti::shm {
namespace {

// Equal labels get equal numbers, 0, 1, ... in the order of their first appearance.
std::vector<int> Number(const std::vector<std::string>& labels) {
  std::map<std::string, int> numbers;
  std::vector<int> numbered;
  for (const auto& label : labels) {
    numbered.push_back(numbers.emplace(label, static_cast<int>(numbers.size())).first->second);
  }
  return numbered;
}

std::vector<std::string> GatherTexts(const AllGather& all_gather, const std::string& mine) {
  std::vector<std::string> texts;
  for (const auto& each : all_gather(std::as_bytes(std::span(mine)))) {
    texts.emplace_back(reinterpret_cast<const char*>(each.data()), each.size());
  }
  return texts;
}

}  // namespace

int Hosts::count() const { return host_of.empty() ? 0 : *std::max_element(host_of.begin(), host_of.end()) + 1; }

std::vector<int> Hosts::RanksWith(int rank) const {
  std::vector<int> ranks;
  for (int r = 0; r < static_cast<int>(host_of.size()); ++r) {
    if (SameHost(rank, r)) ranks.push_back(r);
  }
  return ranks;
}

std::vector<int> Hosts::Places() const {
  std::vector<int> ranks_of(static_cast<std::size_t>(count()));
  std::vector<int> places;
  for (const int host : host_of) places.push_back(ranks_of[static_cast<std::size_t>(host)]++);
  return places;
}

int Hosts::MostRanks() const {
  const auto places = Places();
  return 1 + *std::ranges::max_element(places);
}

Hosts FindHosts(const AllGather& all_gather, int virtual_hosts) {
  struct stat network {};
  // Not /proc/self: that is the process's first thread, which may have ended.
  constexpr auto kNamespace = "/proc/thread-self/ns/net";
  if (stat(kNamespace, &network) != 0) ThrowErrno(fmt::format("cannot read {}", kNamespace));
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  auto kernels = GatherTexts(all_gather, boot);
  auto hosts = GatherTexts(all_gather, fmt::format("{} {}:{}", boot, network.st_dev, network.st_ino));
  const std::size_t parts = std::clamp<std::size_t>(static_cast<std::size_t>(virtual_hosts), 1, hosts.size());
  for (std::size_t r = 0; r < hosts.size(); ++r) hosts[r] += fmt::format(" {}", r * parts / hosts.size());
  return {Number(hosts), Number(kernels)};
}

}  // namespace tutti::shm
