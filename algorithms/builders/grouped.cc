// Grouped: neighbouring ranks form groups of about sqrt(n). Each member gives its contribution to the group's first
// rank, which reduces them and posts the partial sum; then every rank reduces all groups' partial sums.
//
//     0 1 2 | 3 4 5 | 6 7 8        0 <- 1 2, 3 <- 4 5, 6 <- 7 8;    every rank reads 0, 3 and 6
//
// Where direct makes each rank read n - 1 messages, this makes it read about sqrt(n), or twice that for a first rank,
// in two trips. It pays where reading costs more than a trip: not for a few bytes (docs/notebook/performance/tried.md).
// The two-level scheme of Karonis et al., "Exploiting Hierarchy in Parallel Computer Networks" (2000), with the groups
// that make it cheapest where all ranks are equally near.
#include <algorithm>
#include <utility>

#include "algorithms/builders/builders.h"
#include "algorithms/builders/steps.h"

namespace tutti::builders {
namespace {

// The least s with s * s >= n.
int GroupSize(int n) {
  int size = 1;
  while (size * size < n) ++size;
  return size;
}

Channel AllReduce(int rank, int n) {
  const int size = GroupSize(n);
  const int first = rank / size * size;
  Lane give;
  if (rank == first) {
    std::vector<Operand> contributions = {Scaled(0)};
    for (int member = first + 1; member < std::min(first + size, n); ++member) contributions.push_back(From(member));
    // Out, because a rank does not read its own post.
    give.steps.push_back(MakeStep(0, std::move(contributions), {Out(0), Post(rank)}));
  } else {
    give.steps.push_back(MakeStep(0, {Scaled(0)}, {To(first)}));
  }
  std::vector<Operand> partial_sums;
  for (int leader = 0; leader < n; leader += size) partial_sums.push_back(leader == rank ? Out(0) : Post(leader));
  Step reduce = Finally(MakeStep(0, std::move(partial_sums), {Out(0)}));
  reduce.after = {{0, 0}};  // a first rank's sum must be there; in place, a member's contribution must be gone
  return {{std::move(give), Lane{{std::move(reduce)}}}};
}

}  // namespace

// Never by reference: a first rank's Out changes while its post is read.
Schedule BuildGrouped(const ScheduleRequest& request) {
  return Answer(request, 1, AllReduce(request.rank, request.nranks));
}

}  // namespace tutti::builders
