// The fake GPU's stand-in for a dma-buf: a file that says which parts of which files make up the range. Who knows this
// maps them (testing/dma_buf_standin); Linux and its drivers do not.
//
// Thread-safety: plain data.
#pragma once

#include <cstdint>

namespace tutti::fake_gpu {

// One of them after the other in the file.
struct DmaBufPiece {
  static constexpr std::uint64_t kMark = 0x66756264'75706774;

  std::uint64_t mark = kMark;
  std::int64_t file = -1;  // a descriptor of this process, as long as the memory is mapped
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

}  // namespace tutti::fake_gpu
