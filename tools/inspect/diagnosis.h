// Combines the flight recorders of a job (src/diagnostics/dump.h): where each rank is, whose calls differ, and which
// rank the others wait for.
//
// Thread-safety: pure functions and value types.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tutti::tools {

struct DumpedOperation {
  std::uint64_t sequence = 0;
  std::string call, kind, signature, algorithm;
  std::string site;  // "/job/train.py:41 in step"; may be empty
  int peer = -1;
  double started_us = 0, ended_us = 0;
  bool done = false;
};

struct Dump {
  std::string communicator, name;
  int rank = 0;
  double time_us = 0;
  std::vector<std::string> ranks;  // "rank 3 (host node1, pid 4711)"
  std::string failure;             // empty: none
  int waits_for = -1;
  std::vector<DumpedOperation> operations;  // oldest first
};

// Throws tuttiInvalidArgument naming `file` if the text is no valid dump.
Dump ParseDump(const std::string& text, const std::string& file);

// One sentence per line, and one paragraph per communicator.
std::string Diagnose(const std::vector<Dump>& dumps);

}  // namespace tutti::tools
