// The buffers of one measured operation on one rank: the measured library allocates them, and this class fills them
// with predictable inputs and compares every element.
//
// Thread-safety: one thread. Invariant: in place there is one allocation, else two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "bench/backends/library.h"
#include "bench/worker/values.h"

namespace tutti::bench {

class MeasuredBuffers {
 public:
  // Collective. Throws std::runtime_error. `on_device`: only the library's Read and Write reach the memory that it
  // allocates.
  MeasuredBuffers(Library& library, const Operation& operation, bool on_device);

  const Buffers& buffers() const { return buffers_; }

  // Writes this rank's inputs for `seed`, and garbage to the rest of the output.
  void FillInputs(std::uint64_t seed);
  // Counts wrong elements in the output, and changed elements in an input that must stay intact.
  std::size_t CountWrong() const;
  // The same after more calls. In place these overwrite the inputs, so the result is 0.
  std::size_t CountWrongAfterRepeats() const { return operation_.in_place ? 0 : CountWrong(); }

 private:
  using Memory = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;
  Memory Allocate(std::size_t elements) const;
  Values ValuesFor(std::uint64_t seed) const;
  void FillFrom(const Table& table, std::size_t elements, std::byte* out) const;
  std::size_t CountWrongAt(const Table& table, std::size_t first, std::size_t elements, const std::byte* data) const;

  Library& library_;
  const Operation operation_;
  const bool on_device_;
  const Layout layout_;
  const std::size_t element_size_;
  Memory first_;   // the send buffer, or the only one
  Memory second_;  // the receive buffer
  Buffers buffers_;
  std::uint64_t seed_ = 0;
};

}  // namespace tutti::bench
