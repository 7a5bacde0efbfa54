#include "interop/pmpi/wishes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

namespace tutti::pmpi {
namespace {

struct Wish {
  const char* variable;
  std::array<std::string_view, 2> takes;

  std::string_view value() const {
    const char* const text = std::getenv(variable);
    return text == nullptr ? "" : text;
  }
};
constexpr Wish kLayer{"TUTTI_MPI", {"on", "off"}};
constexpr Wish kReport{"TUTTI_MPI_REPORT", {"0", "1"}};

}  // namespace

bool WantsMpiAlone() { return kLayer.value() == "off"; }

bool WantsReport() { return kReport.value() == "1"; }

std::string UnknownWishes() {
  std::string told;
  for (const auto& wish : {kLayer, kReport}) {
    const auto value = wish.value();
    if (value.empty() || std::ranges::find(wish.takes, value) != wish.takes.end()) continue;
    told += fmt::format("tutti-mpi: {} has a value that means nothing: it takes \"{}\" and \"{}\"\n", wish.variable,
                        wish.takes[0], wish.takes[1]);
  }
  return told;
}

}  // namespace tutti::pmpi
