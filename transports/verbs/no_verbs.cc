// Replaces the other sources of this folder where the build has no infiniband/verbs.h.
#include "transports/verbs/verbs.h"

namespace tutti::verbs {
namespace {

std::string WhyNot(const Settings& /*settings*/) {
  return "this build has no verbs: infiniband/verbs.h was missing (Debian: libibverbs-dev, Fedora: rdma-core-devel)";
}

}  // namespace

constexpr progress::NetworkKind kNetwork{tuttiTransportVerbs,          "verbs", true, &WhyNot, nullptr,
                                         &progress::CannotMake<WhyNot>};

}  // namespace tutti::verbs
