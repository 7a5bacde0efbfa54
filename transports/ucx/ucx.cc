#include "transports/ucx/ucx.h"

#include "base/all_gather.h"
#include "base/error.h"
#include "transports/ucx/transport.h"

namespace tutti::ucx {

std::string WhyNoUcx() {
  try {
    const UcxWorker worker(1);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::unique_ptr<progress::NetworkTransport> MakeUcxTransport(int rank, const std::vector<int>& peers,
                                                             const auth::SecretKey& key, const Settings& settings,
                                                             const AllGather& all_gather,
                                                             progress::NetworkTransportEvents& events) {
  return std::make_unique<UcxTransport>(rank, peers, key, settings, all_gather, events);
}

}  // namespace tutti::ucx
