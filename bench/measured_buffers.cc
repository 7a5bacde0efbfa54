#include "bench/measured_buffers.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>

#include "bench/types.h"

namespace tutti::bench {
namespace {

constexpr int kGarbage = 0xA5;

}  // namespace

std::byte* AllocateOrdinary(std::size_t bytes) {
  auto* const memory = static_cast<std::byte*>(std::malloc(std::max<std::size_t>(1, bytes)));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

MeasuredBuffers::MeasuredBuffers(Library& library, const Operation& operation)
    : library_(library),
      operation_(operation),
      layout_(library.LayoutFor(operation)),
      element_size_(SizeOf(operation.type)) {
  if (operation.in_place) {
    first_ = Allocate(std::max(layout_.send_offset + layout_.send_elements,  //
                               layout_.recv_offset + layout_.recv_elements));
  } else {
    first_ = Allocate(layout_.send_elements);
    second_ = Allocate(layout_.recv_elements);
  }
  std::byte* const output = operation.in_place ? first_.get() : second_.get();
  buffers_ = {first_.get() + layout_.send_offset * element_size_, output + layout_.recv_offset * element_size_};
}

MeasuredBuffers::Memory MeasuredBuffers::Allocate(std::size_t elements) const {
  Library& library = library_;
  return Memory(library_.Allocate(elements * element_size_), [&library](std::byte* memory) { library.Free(memory); });
}

Values MeasuredBuffers::ValuesFor(std::uint64_t seed) const {
  return Values(operation_.type, operation_.op, Reduces(operation_.collective), library_.ranks(), seed);
}

void MeasuredBuffers::FillInputs(std::uint64_t seed) {
  seed_ = seed;
  std::memset(buffers_.recv, kGarbage, layout_.recv_elements * element_size_);
  Fill(ValuesFor(seed).Input(library_.rank()), element_size_, 0, layout_.send_elements, buffers_.send);
}

std::size_t MeasuredBuffers::CountWrong() const {
  const Values values = ValuesFor(seed_);
  std::map<int, Table> tables;  // one per source that occurs
  const auto table_of = [&](int source) -> const Table& {
    auto& table = tables[source];
    if (table.empty()) table = source == kReduced ? values.Reduced() : values.Input(source);
    return table;
  };
  std::size_t wrong = 0;
  for (const Segment& segment : ExpectedOutput(operation_, library_.ranks(), library_.rank())) {
    wrong += bench::CountWrong(table_of(segment.source), element_size_, segment.input, segment.length,
                               buffers_.recv + segment.output * element_size_);
  }
  if (!operation_.in_place) {
    wrong += bench::CountWrong(table_of(library_.rank()), element_size_, 0, layout_.send_elements, buffers_.send);
  }
  return wrong;
}

}  // namespace tutti::bench
