#include "transports/verbs/verbs.h"

#include "base/error.h"
#include "transports/verbs/carrier.h"

namespace tutti {

std::string WhyNoVerbs(const Settings& settings) {
  try {
    OpenRails(settings);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::unique_ptr<Carrier> MakeVerbsCarrier(int rank, const std::vector<int>& peers, const SecretKey& key,
                                          const Settings& settings, const AllGather& all_gather,
                                          CarrierEvents& events) {
  return std::make_unique<VerbsCarrier>(rank, peers, key, settings, all_gather, events);
}

}  // namespace tutti
