// Suggests a known name for a mistyped one.
//
// Thread-safety: pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tutti {

// The one of `names` with the fewest mistakes: changed, added, missing or swapped letters, or an end too much or too
// little. Empty if none is near: if they are more than a third of `name`'s letters, without the words that both share.
// Dashes of options are no letters.
std::string_view NearestName(std::string_view name, std::span<const std::string_view> names);

// "; did you mean ring?", or nothing if no name is near.
std::string DidYouMean(std::string_view name, std::span<const std::string_view> names);

// "algorithm "rign" is unknown; did you mean ring? Known are ring, direct". `what`: "algorithm".
std::string UnknownName(std::string_view what, std::string_view name, std::span<const std::string_view> names);

}  // namespace tutti
