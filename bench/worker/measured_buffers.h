// The buffers of one measured operation on one rank: allocated by the library under test, filled with predictable
// inputs, compared element by element.
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
  // Collective. Throws std::runtime_error.
  // `on_device`: what the library allocates is reached by its Read and Write alone.
  MeasuredBuffers(Library& library, const Operation& operation, bool on_device);

  const Buffers& buffers() const { return buffers_; }

  // Writes this rank's inputs for `seed`, and garbage wherever the output will be.
  void FillInputs(std::uint64_t seed);
  // Elements of the output that are not what the inputs demand, and of an input that should have been left alone.
  std::size_t CountWrong() const;
  // The same after further calls, which spend the inputs when in place: then 0.
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
