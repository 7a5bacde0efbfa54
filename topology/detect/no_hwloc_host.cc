// Replaces hwloc_host.cc in builds without hwloc.
#include "base/error.h"
#include "topology/detect/hwloc_host.h"

namespace tutti::detect {

bool HasHwloc() { return false; }

std::optional<topology::HostDescription> DescribeThisByHwloc() { return std::nullopt; }

topology::HostDescription DescribeByHwlocXml(const std::string& path) {
  Throw(tuttiInvalidArgument, "{}: this build has no hwloc, which is needed to read such files", path);
}

topology::HostDescription DescribeByHwlocSynthetic(const std::string& /*text*/) {
  Throw(tuttiInvalidArgument, "this build has no hwloc, which is needed for synthetic machines");
}

}  // namespace tutti::detect
