// NCCL's environment as this process has it: its variables and its config files, and the settings of Tutti that follow.
// Read once, when Tutti first asks, so a program may set variables until then.
//
// Thread-safety: immutable once made.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "interop/nccl/nccl.h"

namespace tutti::nccl {

struct ConfigFile {
  std::string text;
  std::string problem = {};  // why it could not be read; empty: it was, or there is none
};
// Bounded; nothing is waited for, but for the writer of a pipe.
ConfigFile ReadConfigFile(const std::string& path);

class Environment {
 public:
  using Lookup = std::function<std::optional<std::string>(std::string_view name)>;

  // `variables` wins over the config files' lines, which have the form NAME=value.
  Environment(Lookup variables, const std::vector<ConfigFile>& files);
  // This process's, with the config files that NCCL reads.
  static const Environment& OfThisProcess();

  // Nothing if it is not set, or empty.
  std::optional<std::string> Value(std::string_view name) const;

  struct Setting {
    std::string text;
    std::string_view source;  // the NCCL variable
  };
  // The settings that follow, where the environment does not have Tutti's own variable.
  const std::map<std::string, Setting, std::less<>>& settings() const { return settings_; }

  // The reason why no communicator can be made; null: there is none.
  struct Problem {
    ncclResult_t code;
    std::string text;
  };
  const std::optional<Problem>& problem() const { return problem_; }
  // For NCCL_DEBUG=INFO: each known variable that is set, and what it means.
  const std::vector<std::string>& remarks() const { return remarks_; }

 private:
  void Follow();
  void FollowGpuDirect();
  void FollowNetwork();
  void FollowChannels();
  void FollowChoices();
  void Remark();
  void Give(std::string_view setting, std::string text, std::string_view source);
  std::optional<long long> Number(std::string_view name);
  void GiveIf(std::string_view name, long long value, std::string_view setting, std::string_view text);

  Lookup variables_;
  std::map<std::string, std::string, std::less<>> configured_;
  std::map<std::string, Setting, std::less<>> settings_;
  std::optional<Problem> problem_;
  std::vector<std::string> remarks_;
};

}  // namespace tutti::nccl
