// One call of one collective with inputs whose result is exactly predictable, made on all ranks alike and checked
// against a plain reference: every output element, guard bytes around every buffer, and that inputs stay as they were.
//
// Thread-safety: value types; an Arena belongs to one rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/ranks.h"

namespace tutti::testing {

enum class What {
  all_reduce,
  reduce,
  broadcast,
  bcast,
  reduce_scatter,
  all_gather,
  alltoall,
  gather,
  scatter,
  barrier,
  shift,
  all_gather_v,
  reduce_scatter_v,
  alltoall_v
};
inline constexpr int kWhats = static_cast<int>(What::alltoall_v) + 1;
const char* NameOf(What what);

struct Case {
  What what = What::all_reduce;
  tuttiDataType_t type = tuttiFloat32;
  tuttiRedOp_t op = tuttiSum;
  std::size_t count = 0;
  int root = 0;           // shift: how far each message goes
  bool in_place = false;  // where the collective has such a form
  std::uint32_t seed = 0;

  std::string Describe() const;
};

// A rank's send and receive memory, for one case after the other.
class Arena {
 public:
  enum class Kind { plain, allocated };
  // `bytes` is the most that a buffer holds; allocated memory comes from tuttiMemAlloc.
  Arena(Kind kind, std::size_t bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Registers both buffers as windows; collective. REQUIRES: allocated.
  void Register(tuttiComm_t comm);
  void Deregister(tuttiComm_t comm);

  std::byte* send() { return send_; }
  std::byte* receive() { return receive_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* New() const;

  Kind kind_;
  std::size_t bytes_;
  std::byte* send_;
  std::byte* receive_;
  std::vector<tuttiWindow_t> windows_;
};

// Runs the case on this rank. Empty, or what went wrong.
std::string RunCase(const Case& which, int rank, int nranks, tuttiComm_t comm, tuttiStream_t stream, Arena& arena);

// `how_many` cases, the same on every rank: all collectives in turn; types, operators, counts, roots and places mixed.
// No buffer of them has more than `most_bytes`.
std::vector<Case> MixedCases(std::uint32_t seed, int how_many, int nranks, std::size_t most_bytes);

}  // namespace tutti::testing
