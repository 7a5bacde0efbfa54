// Shared by tests of settings and files: temporary files, and refusals that reach every rank.
//
// Thread-safety: a File belongs to its test; functions as RunRanks.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "testing/ranks.h"

namespace tutti::testing {

using Environment = std::vector<std::pair<std::string, std::string>>;

// A file that is deleted with this object.
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

// All ranks fail to join with tuttiInvalidArgument and a message that contains `words`.
void ExpectRefusal(int ranks, const Environment& environment, const std::vector<std::string>& words);

}  // namespace tutti::testing
