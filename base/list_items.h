// Lists in settings: items with separators between them.
//
// Thread-safety: pure functions.
#pragma once

#include <algorithm>
#include <string_view>

namespace tutti {

// Takes the first item off a list, with the separator after it. An item may be empty. REQUIRES: the list is not empty.
inline std::string_view TakeItem(std::string_view& list, std::string_view separators = ",") {
  const auto item = list.substr(0, list.find_first_of(separators));
  list.remove_prefix(std::min(list.size(), item.size() + 1));
  return item;
}

}  // namespace tutti
