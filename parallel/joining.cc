#include "parallel/joining.h"

#include "tutti/parallel/error.h"

namespace tutti::parallel {

void join_communication(Compute& compute, const std::vector<ProcessGroup*>& groups) {
  try {
    compute.join_communication();
  } catch (const Error& error) {
    for (auto* const group : groups) {
      if (group->size() > 1 && *tuttiGetLastError(group->comm()) != '\0') check(error.code(), group->comm());
    }
    throw;
  }
}

}  // namespace tutti::parallel
