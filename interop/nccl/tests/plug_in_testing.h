// Shared by the tests of plug-ins: files that ranks write to, and what they hold.
//
// Thread-safety: pure functions; a Scratch belongs to its thread.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "interop/nccl/tests/testing.h"

namespace tutti::nccl::testing {

using Environment = std::vector<std::pair<std::string, std::string>>;

inline std::string ContentOf(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

// An empty file.
class Scratch {
 public:
  Scratch() {
    const int file = mkstemp(path_.data());
    EXPECT_GE(file, 0);
    close(file);
  }
  ~Scratch() { std::filesystem::remove(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }
  std::string content() const { return ContentOf(path_); }

 private:
  std::string path_ = (std::filesystem::temp_directory_path() / "nccl_plug_in_XXXXXX").string();
};

inline int Count(const std::string& text, const std::string& word) {
  int count = 0;
  for (auto at = text.find(word); at != text.npos; at = text.find(word, at + word.size())) ++count;
  return count;
}

inline bool Has(const std::string& text, const std::string& word) { return text.find(word) != text.npos; }

inline std::string LastPlan(ncclComm_t comm) {
  std::array<char, 512> text{};
  tuttiCommDescribeLastOperation(reinterpret_cast<tuttiComm_t>(comm), text.data(), text.size());
  return text.data();
}

}  // namespace tutti::nccl::testing
