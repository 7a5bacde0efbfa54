// NCCL's environment variables, and what each means here: one table for code, log and docs/nccl_environment.md.
//
// Thread-safety: constants and pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tutti::nccl {

struct Variable {
  std::string_view name;
  std::string_view setting;  // the TUTTI_* that it gives; "" if it gives none
  std::string_view text;     // how, or what it does; if `ignored`, why it has no meaning
  bool ignored = false;
  bool as_it_is = false;  // the setting takes the variable's text
};

// Every name that NCCL documents or reads, those with a meaning first.
std::span<const Variable> KnownVariables();

// The documentation's table: the variables with a meaning.
std::string EnvironmentAsMarkdown();

}  // namespace tutti::nccl
