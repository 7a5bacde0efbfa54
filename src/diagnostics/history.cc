#include "src/diagnostics/history.h"

#include <algorithm>

namespace tutti::diagnostics {

std::vector<std::uint64_t> History::Marks(std::size_t most) const {
  std::vector<std::uint64_t> marks;
  for (const auto mark : kept_) {
    if (mark != 0) marks.push_back(mark);
  }
  // By sequence, which wraps: no kept mark is older than kKept.
  std::sort(marks.begin(), marks.end(), [this](std::uint64_t a, std::uint64_t b) {
    return newest() - ring::MarkedSequence(a) > newest() - ring::MarkedSequence(b);
  });
  marks.erase(marks.begin(), marks.end() - static_cast<std::ptrdiff_t>(std::min(most, marks.size())));
  return marks;
}

}  // namespace tutti::diagnostics
