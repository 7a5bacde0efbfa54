#include "tutti/parallel/device_mesh.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "tutti/parallel/error.h"

namespace tutti::parallel {

DeviceMesh::DeviceMesh(ProcessGroup& world, MeshLayout layout, const tuttiConfig_t& config, std::string name)
    : world_(world), layout_(std::move(layout)), config_(config), name_(std::move(name)) {
  if (layout_.size() == world.size()) return;
  std::string sizes;
  for (const auto& axis : layout_.axes()) {
    sizes += fmt::format("{}{} ({})", sizes.empty() ? "" : " x ", axis.name, axis.size);
  }
  throw Error(tuttiInvalidArgument, fmt::format("the mesh {} has {} places, but the world has {} ranks", sizes,
                                                layout_.size(), world.size()));
}

ProcessGroup& DeviceMesh::flattened(const std::vector<std::string>& axes) {
  const std::set<std::string> sorted(axes.begin(), axes.end());
  const auto name = fmt::format("{}{}", name_, fmt::join(sorted, "-"));
  auto& group = groups_[name];
  if (!group) group = std::make_unique<ProcessGroup>(world_, name, layout_.group_of(world_.rank(), axes), config_);
  return *group;
}

void DeviceMesh::close() {
  for (const auto& [name, group] : groups_) {
    if (group) group->close();
  }
}

std::map<std::string, std::uint64_t> DeviceMesh::bytes_sent() const {
  std::map<std::string, std::uint64_t> bytes;
  for (const auto& [name, group] : groups_) {
    if (group) bytes[name] = group->bytes_sent();
  }
  return bytes;
}

}  // namespace tutti::parallel
