// Measures what messages between hosts cost, by sending some: an interface's own word about its speed is often wrong, and
// says nothing of the time that a rank's thread takes for them.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <optional>

#include "net/auth/secret_key.h"
#include "selection/cost_model/host_machine.h"
#include "src/init/meeting.h"
#include "transports/progress/network_kind.h"

namespace tutti::init {

// What one pair of ranks saw, in us, by a message's bytes B on a link of bandwidth w between threads that take m + B c for
// it, one after the other.
struct ProbeTimes {
  double small = 0;       // a short message one way: latency + 2 m
  double large = 0;       // a long one: latency + 2 m + 2 B c + B / w
  double stream = 0;      // each of many long ones in one direction: max(B / w, m + B c)
  double duplex = 0;      // each of many long ones, both ways at once: max(B / w, 2 m + 2 B c)
  double short_work = 0;  // how long a thread is at work for each of many short ones: m
  double long_work = 0;   // for each of many long ones: m + B c
  // The part of the time of messages both ways in which the thread had nothing to do, though it had its core. In one direction
  // it may also wait for a receiver that takes longer than it does.
  double idle = 0;
};
inline constexpr std::uint32_t kLongProbe = 64 * 1024;  // B

// Returns nullopt if a time is missing.
std::optional<cost_model::NetworkCosts> CostsFrom(const ProbeTimes& times);

// Collective. Returns the costs that all ranks go by: those that they all know; else, over TCP, measured ones, rounded so that a
// small disturbance rarely changes a choice; else rank 0's `guess`, also where a connection breaks or no answer comes for some
// seconds. `key`: of the job. `crowding`: see Processors; rank 0's counts.
cost_model::NetworkCosts AgreeOnCosts(const Meeting& meeting, const progress::NetworkKind& kind,
                                      const auth::SecretKey& key, const std::optional<cost_model::NetworkCosts>& known,
                                      const cost_model::NetworkCosts& guess, double crowding);

}  // namespace tutti::init
