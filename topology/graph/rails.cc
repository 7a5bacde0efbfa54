#include "topology/graph/rails.h"

#include <algorithm>

namespace tutti::topology {

std::vector<int> RingEnds(const System& system, int host) {
  std::vector<int> ends = system.All(DeviceKind::gpu, host);
  return ends.empty() ? system.All(DeviceKind::cpu, host) : ends;
}

bool Nearer(const Path& a, const Path& b) {
  if (a.path_class != b.path_class) return a.path_class < b.path_class;
  if (a.bandwidth != b.bandwidth) return a.bandwidth > b.bandwidth;
  return a.links.size() < b.links.size();
}

std::vector<int> Nearest(const std::vector<Path>& paths, const std::vector<int>& candidates) {
  std::vector<int> nearest;
  for (const int candidate : candidates) {
    const Path& path = paths[candidate];
    if (path.path_class >= PathClass::NET) continue;
    if (!nearest.empty() && Nearer(path, paths[nearest.front()])) nearest.clear();
    if (nearest.empty() || !Nearer(paths[nearest.front()], path)) nearest.push_back(candidate);
  }
  return nearest;
}

std::vector<std::vector<int>> NicsOfRanks(const System& system, int host, const std::vector<int>& device_of) {
  std::vector<int> ends;
  for (const int device : device_of) {
    if (std::ranges::find(ends, device) == ends.end()) ends.push_back(device);
  }
  auto nics_of = NearestNics(system, host, ends);
  for (std::size_t end = 0; end < ends.size(); ++end) {
    const auto paths = PathsFrom(system, ends[end]);
    std::ranges::stable_sort(nics_of[end], [&](int a, int b) { return Nearer(paths[a], paths[b]); });
  }
  std::vector<std::size_t> ranks_at(ends.size());
  std::vector<std::vector<int>> nics_of_ranks;
  for (const int device : device_of) {
    const auto end = static_cast<std::size_t>(std::ranges::find(ends, device) - ends.begin());
    auto& nics = nics_of_ranks.emplace_back(nics_of[end]);
    const std::size_t first = nics.empty() ? 0 : ranks_at[end]++ % nics.size();
    std::rotate(nics.begin(), nics.begin() + static_cast<std::ptrdiff_t>(first), nics.end());
  }
  return nics_of_ranks;
}

std::vector<std::vector<int>> NearestNics(const System& system, int host, const std::vector<int>& ends) {
  const std::vector<int> nics = system.All(DeviceKind::nic, host);
  std::vector<std::vector<int>> serving(ends.size());
  std::vector<int> served(system.devices.size(), 0);  // by device: how many of the other kind it has
  const auto least_served = [&](const std::vector<int>& choice) {
    return *std::min_element(choice.begin(), choice.end(), [&](int a, int b) { return served[a] < served[b]; });
  };
  const auto assign = [&](int end, int nic) {
    serving[std::find(ends.begin(), ends.end(), end) - ends.begin()].push_back(nic);
    ++served[end];
    ++served[nic];
  };
  for (const int end : ends) {
    const std::vector<int> choice = Nearest(PathsFrom(system, end), nics);
    if (!choice.empty()) assign(end, least_served(choice));
  }
  for (const int nic : nics) {
    if (served[nic] > 0) continue;
    const std::vector<int> choice = Nearest(PathsFrom(system, nic), ends);
    if (!choice.empty()) assign(least_served(choice), nic);
  }
  return serving;
}

}  // namespace tutti::topology
