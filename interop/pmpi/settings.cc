#include "interop/pmpi/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

namespace tutti::pmpi {
namespace {

struct Setting {
  const char* variable;
  std::array<std::string_view, 2> takes;

  std::string_view value() const {
    const char* const text = std::getenv(variable);
    return text == nullptr ? "" : text;
  }
};
constexpr Setting kLayer{"TUTTI_MPI", {"on", "off"}};
constexpr Setting kReport{"TUTTI_MPI_REPORT", {"0", "1"}};

}  // namespace

bool WantsMpiAlone() { return kLayer.value() == "off"; }

bool WantsReport() { return kReport.value() == "1"; }

std::string UnknownSettingValues() {
  std::string told;
  for (const auto& setting : {kLayer, kReport}) {
    const auto value = setting.value();
    if (value.empty() || std::ranges::find(setting.takes, value) != setting.takes.end()) continue;
    told += fmt::format("tutti-mpi: {} has a value that means nothing: it takes \"{}\" and \"{}\"\n", setting.variable,
                        setting.takes[0], setting.takes[1]);
  }
  return told;
}

}  // namespace tutti::pmpi
