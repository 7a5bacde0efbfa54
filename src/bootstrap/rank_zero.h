// Facts that rank 0 alone finds, from files that its settings name, and that every rank must share.
//
// Thread-safety: a collective function without state.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>

#include "base/all_gather.h"
#include "base/files/json.h"
#include "transports/shm/descriptors/descriptor_exchange.h"

namespace tutti::bootstrap {

// Collective. Calls `find` on rank 0; every rank gets the object that it returned. If `find` throws, every rank throws:
// for an Error tuttiInvalidArgument with its message, else tuttiSystemError (memory ran out) or tuttiInternalError. The
// object is read within limits; its types are checked when values are extracted.
JsonDocument FromRankZero(int rank, const AllGather& all_gather, const std::function<nlohmann::json()>& find);

}  // namespace tutti::bootstrap
