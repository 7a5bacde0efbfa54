#include "tutti/parallel/mesh_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "tutti/parallel/error.h"

namespace tutti::parallel {

MeshLayout::MeshLayout(std::vector<MeshAxis> axes) : axes_(std::move(axes)), strides_(axes_.size()) {
  std::set<std::string> names;
  for (std::size_t i = axes_.size(); i-- > 0;) {
    const auto& axis = axes_[i];
    if (axis.size < 1) {
      throw Error(tuttiInvalidArgument,
                  fmt::format("axis \"{}\" has size {}; at least 1 is needed", axis.name, axis.size));
    }
    if (axis.name.empty() || !names.insert(axis.name).second) {
      throw Error(tuttiInvalidArgument, axis.name.empty() ? std::string("an axis has no name")
                                                          : fmt::format("two axes have the name \"{}\"", axis.name));
    }
    strides_[i] = size_;
    size_ *= axis.size;
  }
}

std::size_t MeshLayout::place(const std::string& axis) const {
  const auto found = std::ranges::find(axes_, axis, &MeshAxis::name);
  if (found != axes_.end()) return static_cast<std::size_t>(found - axes_.begin());
  std::vector<std::string> names;
  for (const auto& each : axes_) names.push_back(each.name);
  throw Error(tuttiInvalidArgument,
              fmt::format("there is no axis \"{}\"; the axes are {}", axis, fmt::join(names, ", ")));
}

int MeshLayout::coordinate(int rank, const std::string& axis) const {
  const auto i = place(axis);
  return rank / strides_[i] % axes_[i].size;
}

std::vector<int> MeshLayout::group_of(int rank, const std::vector<std::string>& axes) const {
  const std::set<std::string> varied(axes.begin(), axes.end());
  // Begins with the rank at coordinate 0 of each of these axes.
  std::vector<int> group{rank};
  for (const auto& axis : varied) group.front() -= coordinate(rank, axis) * strides_[place(axis)];
  for (const auto& axis : varied) {
    const auto i = place(axis);
    const auto before = group;
    for (int at = 1; at < axes_[i].size; ++at) {
      for (const int each : before) group.push_back(each + at * strides_[i]);
    }
  }
  std::ranges::sort(group);
  return group;
}

std::vector<std::vector<int>> MeshLayout::groups(const std::vector<std::string>& axes) const {
  std::vector<std::vector<int>> all;
  for (int rank = 0; rank < size_; ++rank) {
    auto group = group_of(rank, axes);
    if (group.front() == rank) all.push_back(std::move(group));
  }
  return all;
}

}  // namespace tutti::parallel
