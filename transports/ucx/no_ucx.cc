// Replaces the other sources of this folder where the build has no ucp/api/ucp.h.
#include "transports/ucx/ucx.h"

namespace tutti::ucx {
namespace {

std::string WhyNot(const Settings& /*settings*/) {
  return "this build has no UCX: ucp/api/ucp.h was missing (Debian: libucx-dev, Fedora: ucx-devel)";
}

}  // namespace

constexpr progress::NetworkKind kNetwork{tuttiTransportUcx, "ucx",   false,
                                         &WhyNot,           nullptr, &progress::CannotMake<WhyNot>};

}  // namespace tutti::ucx
