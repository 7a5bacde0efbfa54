// Names in the environment that look like Tutti's settings but are none: typing errors, mostly.
//
// Thread-safety: pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tutti {

// A line for each of these environment variables ("NAME=value") whose name begins with TUTTI_ and is not one of
// `settings` or of their `former_names`, which it does not suggest, nor a name that Tutti's programs, tests and scripts use.
std::string UnknownSettingsIn(std::span<const std::string_view> environment, std::span<const std::string_view> settings,
                              std::span<const std::string_view> former_names);

}  // namespace tutti
