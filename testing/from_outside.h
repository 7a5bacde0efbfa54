// What tests of settings and files have in common: files that go away, and refusals that every rank hears.
//
// Thread-safety: a File belongs to its test; functions as RunRanks.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "testing/ranks.h"

namespace tutti::testing {

using Environment = std::vector<std::pair<std::string, std::string>>;

// A file that goes away with the test.
class File {
 public:
  explicit File(const std::string& text);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};
std::string TextOf(const std::string& path);

// tuttiCommDescribeLastOperation.
std::string LastOperation(tuttiComm_t comm);

// All ranks fail to join with tuttiInvalidArgument and hear `words`.
void ExpectRefusal(int ranks, const Environment& environment, const std::vector<std::string>& words);

}  // namespace tutti::testing
