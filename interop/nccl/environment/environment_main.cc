// Prints the table of NCCL's environment variables for docs/nccl_environment.md (scripts/docs.sh).
#include <cstdio>

#include "interop/nccl/environment/environment_table.h"

int main() {
  const auto table = tutti::nccl::EnvironmentAsMarkdown();
  return std::fputs(table.c_str(), stdout) < 0 ? 1 : 0;
}
