// The ranks of a communicator that is being made, as the parts that they make together need to know them.
//
// Thread-safety: a value.
#pragma once

#include <string>
#include <vector>

#include "base/all_gather.h"
#include "base/clocks/deadline.h"
#include "base/settings/settings.h"
#include "src/bootstrap/join_messages.h"
#include "transports/shm/hosts.h"

namespace tutti::init {

// What is referred to outlives the making of the communicator only where a part says so.
struct Meeting {
  const Settings& settings;  // outlives the communicator's parts
  const std::string& name;   // of the communicator
  int rank;
  const shm::Hosts& hosts;
  const std::vector<bootstrap::Process>& roster;
  AllGather all_gather;
  Deadline deadline;

  int nranks() const { return static_cast<int>(roster.size()); }
  bool one_host() const { return hosts.count() == 1; }
};

}  // namespace tutti::init
