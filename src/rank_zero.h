// What rank 0 finds out alone - from files that its settings name - and every rank must know alike.
//
// Thread-safety: a collective function without state.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>

#include "transports/descriptor_exchange.h"

namespace tutti {

// Collective. `find` is called on rank 0; every rank gets what it returned, an object. If it throws an Error, every
// rank throws tuttiInvalidArgument with that message.
nlohmann::json FromRankZero(int rank, const AllGather& all_gather, const std::function<nlohmann::json()>& find);

}  // namespace tutti
