// Replaces verbs.cc, and all of verbs_*.cc, where the build has no infiniband/verbs.h.
#include "base/error.h"
#include "transports/verbs/verbs.h"

namespace tutti {

std::string WhyNoVerbs(const Settings& /*settings*/) {
  return "this build has no verbs: infiniband/verbs.h was missing (Debian: libibverbs-dev, Fedora: rdma-core-devel)";
}

std::unique_ptr<Carrier> MakeVerbsCarrier(int /*rank*/, const std::vector<int>& /*peers*/, const SecretKey& /*key*/,
                                          const Settings& settings, const AllGather& /*all_gather*/,
                                          CarrierEvents& /*events*/) {
  Throw(tuttiInvalidUsage, "{}", WhyNoVerbs(settings));
}

}  // namespace tutti
