#include "transports/verbs/verbs.h"

#include "base/all_gather.h"
#include "base/error.h"
#include "transports/verbs/transport.h"

namespace tutti::verbs {

std::string WhyNoVerbs(const Settings& settings) {
  try {
    OpenRails(settings);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::unique_ptr<progress::NetworkTransport> MakeVerbsTransport(int rank, const std::vector<int>& peers,
                                                               const auth::SecretKey& key, const Settings& settings,
                                                               const AllGather& all_gather,
                                                               progress::NetworkTransportEvents& events) {
  return std::make_unique<VerbsTransport>(rank, peers, key, settings, all_gather, events);
}

}  // namespace tutti::verbs
