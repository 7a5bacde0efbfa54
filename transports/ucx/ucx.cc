#include "transports/ucx/ucx.h"

#include "base/error.h"
#include "transports/ucx/carrier.h"

namespace tutti {

std::string WhyNoUcx() {
  try {
    const UcxWorker worker(1);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::unique_ptr<Carrier> MakeUcxCarrier(int rank, const std::vector<int>& peers, const SecretKey& key,
                                        const Settings& settings, const AllGather& all_gather, CarrierEvents& events) {
  return std::make_unique<UcxCarrier>(rank, peers, key, settings, all_gather, events);
}

}  // namespace tutti
