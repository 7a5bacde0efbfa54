// Replaces the other sources of this folder where the build has no infiniband/verbs.h.
#include "base/all_gather.h"
#include "base/error.h"
#include "transports/verbs/verbs.h"

namespace tutti::verbs {

std::string WhyNoVerbs(const Settings& /*settings*/) {
  return "this build has no verbs: infiniband/verbs.h was missing (Debian: libibverbs-dev, Fedora: rdma-core-devel)";
}

std::unique_ptr<progress::NetworkTransport> MakeVerbsTransport(int /*rank*/, const std::vector<int>& /*peers*/,
                                                               const auth::SecretKey& /*key*/, const Settings& settings,
                                                               const AllGather& /*all_gather*/,
                                                               progress::NetworkTransportEvents& /*events*/) {
  Throw(tuttiInvalidUsage, "{}", WhyNoVerbs(settings));
}

}  // namespace tutti::verbs
