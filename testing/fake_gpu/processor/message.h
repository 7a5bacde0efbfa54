// What a process and its processor (processor.h) say to each other: a request, with the parameter of a kernel behind it,
// and a reply. A request to map carries the descriptor of the file.
//
// Thread-safety: value types.
#pragma once

#include <cstddef>
#include <cstdint>

#include "testing/fake_gpu/stream/grid.h"

namespace tutti::fake_gpu {

struct Request {
  enum class Kind : std::uint32_t { map, unmap, run };
  Kind kind;
  std::uint32_t kernel;          // run: its place among HostKernels()
  GridShape shape;               // run
  std::uint64_t address, bytes;  // map and unmap
  std::uint64_t offset;          // map: in the file
};

struct Reply {
  std::int32_t error;  // errno's; 0: done
};

// The most bytes of a kernel's parameter, as on a GPU.
inline constexpr std::size_t kMostParameterBytes = 4096;

}  // namespace tutti::fake_gpu
