#include "interop/nccl/environment/names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "base/numbers/datatype.h"
#include "interop/nccl/environment/choice_lists.h"

namespace tutti::nccl {
namespace {

struct FunctionName {
  std::string_view ours;
  const char* theirs;
  int number;
};
constexpr FunctionName kFunctionsOfAll[] = {{"broadcast", "Broadcast", 0},  {"reduce", "Reduce", 1},
                                            {"all_gather", "AllGather", 2}, {"reduce_scatter", "ReduceScatter", 3},
                                            {"all_reduce", "AllReduce", 4}, {"send", "Send", 6},
                                            {"receive", "Recv", 7},         {"all_to_all", "AlltoAll", 8},
                                            {"scatter", "Scatter", 9},      {"gather", "Gather", 10},
                                            {"barrier", "Barrier", 11}};

constexpr FunctionName kUnknown{"", "?", 12};

const FunctionName& Find(std::string_view function) {
  const auto* const found = std::ranges::find(kFunctionsOfAll, function, &FunctionName::ours);
  return found == std::end(kFunctionsOfAll) ? kUnknown : *found;
}

// "ncclFloat32": Tutti's names are NCCL's in small letters.
std::array<std::string, tuttiNumTypes> AllTypeNames() {
  std::array<std::string, tuttiNumTypes> names;
  for (std::size_t i = 0; i < names.size(); ++i) {
    names[i] = kDataTypes[i].name;
    names[i].front() = static_cast<char>(std::toupper(static_cast<unsigned char>(names[i].front())));
    names[i].insert(0, "nccl");
  }
  return names;
}

std::array<std::string, tuttiNumAlgorithms> AllAlgorithmNames() {
  std::array<std::string, tuttiNumAlgorithms> names;
  for (int i = 0; i < tuttiNumAlgorithms; ++i) {
    const auto algorithm = static_cast<tuttiAlgorithm_t>(i);
    const int theirs = AlgorithmOf(algorithm);
    auto& name = names[static_cast<std::size_t>(i)];
    name = theirs < 0 ? tuttiAlgorithmName(algorithm) : kAlgorithmNames[static_cast<std::size_t>(theirs)];
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  }
  return names;
}

}  // namespace

const char* NcclFunctionName(std::string_view function) { return Find(function).theirs; }

int NcclFunctionNumber(std::string_view function) { return Find(function).number; }

const char* NcclAlgorithmName(tuttiAlgorithm_t algorithm) {
  static const auto names = AllAlgorithmNames();
  const bool known = algorithm >= 0 && algorithm < tuttiNumAlgorithms;
  return known ? names[static_cast<std::size_t>(algorithm)].c_str() : "?";
}

const char* NcclTypeName(tuttiDataType_t type) {
  static const auto names = AllTypeNames();
  return IsDataType(type) ? names[static_cast<std::size_t>(type)].c_str() : "?";
}

std::size_t TrafficOf(int function, std::size_t bytes, int nranks) {
  switch (function) {
    case kAllReduce: return 2 * bytes;
    case kAllGather:
    case kReduceScatter: return static_cast<std::size_t>(nranks) * bytes;
    default: return bytes;
  }
}

}  // namespace tutti::nccl
