// What rank 0 finds out alone - from files that its settings name - and every rank must know alike.
//
// Thread-safety: a collective function without state.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>

#include "base/json.h"
#include "transports/descriptor_exchange.h"

namespace tutti {

// Collective. `find` is called on rank 0; every rank gets what it returned, an object. Whatever `find` throws, every
// rank throws: for an Error tuttiInvalidArgument with its message, else tuttiSystemError (memory ran out) or
// tuttiInternalError. What rank 0 sends is read within limits, and its types are checked as they are taken out.
JsonDocument FromRankZero(int rank, const AllGather& all_gather, const std::function<nlohmann::json()>& find);

}  // namespace tutti
