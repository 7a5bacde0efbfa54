// Which job a rank belongs to, if its launcher gives no place to meet and has started all ranks on this host: Open MPI's
// and MPICH's mpirun.
//
// Thread-safety: pure but for looking at this process's ancestors.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/settings/settings.h"

namespace tutti::bootstrap {

// Text that is the same on all ranks of the job, and another one for other jobs that run at the time. nullopt: the
// launcher does not say that all ranks are on this host. `rank_variable`: the one in which it gave this rank's number.
std::optional<std::string> NameOfLocalJob(std::string_view rank_variable, const Lookup& environment);

}  // namespace tutti::bootstrap
