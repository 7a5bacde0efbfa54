#include "src/bootstrap/local_job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>

namespace tutti::bootstrap {
namespace {

// The ranks in the job, and those on this host.
struct Sizes {
  std::string_view job, host;
};
constexpr Sizes kSizes[] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"}, {"PMI_SIZE", "MPI_LOCALNRANKS"}};
// A job's name: Open MPI's, Intel MPI's. MPICH gives none.
constexpr std::string_view kNames[] = {"PMIX_NAMESPACE", "I_MPI_HYDRA_UUID"};

std::string Contents(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// 0: not to be seen.
int ParentOf(int process) {
  const auto status = Contents(fmt::format("/proc/{}/status", process));
  constexpr std::string_view kField = "\nPPid:\t";
  const auto found = status.find(kField);
  int parent = 0;
  if (found != std::string::npos) {
    const auto* const begin = status.data() + found + kField.size();
    std::from_chars(begin, status.data() + status.size(), parent);
  }
  return parent;
}

bool HasVariable(int process, std::string_view name) {
  const auto variables = '\0' + Contents(fmt::format("/proc/{}/environ", process));
  return variables.find(fmt::format("{}{}=", '\0', name)) != std::string::npos;
}

// The launcher's process on this host is the nearest ancestor without the rank's variable: a script between them has
// it, too.
int LaunchingProcess(std::string_view rank_variable) {
  int process = getppid();
  while (process > 1 && HasVariable(process, rank_variable)) process = ParentOf(process);
  return process;
}

}  // namespace

std::optional<std::string> NameOfLocalJob(std::string_view rank_variable, const Lookup& environment) {
  const auto all_here = [&](const Sizes& sizes) {
    const auto job = environment(sizes.job);
    return job && job == environment(sizes.host);
  };
  if (std::ranges::none_of(kSizes, all_here)) return std::nullopt;
  for (const auto name : kNames) {
    if (const auto value = environment(name); value && !value->empty()) return value;
  }
  return fmt::format("process {}", LaunchingProcess(rank_variable));
}

}  // namespace tutti::bootstrap
