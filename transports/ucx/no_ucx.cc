// Replaces the other sources of this folder where the build has no ucp/api/ucp.h.
#include "base/all_gather.h"
#include "base/error.h"
#include "transports/ucx/ucx.h"

namespace tutti::ucx {

std::string WhyNoUcx() {
  return "this build has no UCX: ucp/api/ucp.h was missing (Debian: libucx-dev, Fedora: ucx-devel)";
}

std::unique_ptr<progress::NetworkTransport> MakeUcxTransport(int /*rank*/, const std::vector<int>& /*peers*/,
                                                             const auth::SecretKey& /*key*/,
                                                             const Settings& /*settings*/,
                                                             const AllGather& /*all_gather*/,
                                                             progress::NetworkTransportEvents& /*events*/) {
  Throw(tuttiInvalidUsage, "{}", WhyNoUcx());
}

}  // namespace tutti::ucx
