#include "bench/worker/measured_buffers.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>

#include "base/numbers/datatype.h"

namespace tutti::bench {
namespace {

constexpr int kGarbage = 0xA5;
constexpr std::size_t kPieceElements = 1 << 20;  // of a device's memory, copied to the host at a time

}  // namespace

std::byte* AllocateOrdinary(std::size_t bytes) {
  auto* const memory = static_cast<std::byte*>(std::malloc(std::max<std::size_t>(1, bytes)));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

MeasuredBuffers::MeasuredBuffers(Library& library, const Operation& operation, bool on_device)
    : library_(library),
      operation_(operation),
      on_device_(on_device),
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
  const Table garbage(kPeriod * element_size_, static_cast<std::byte>(kGarbage));
  FillFrom(garbage, layout_.recv_elements, buffers_.recv);
  FillFrom(ValuesFor(seed).Input(library_.rank()), layout_.send_elements, buffers_.send);
}

void MeasuredBuffers::FillFrom(const Table& table, std::size_t elements, std::byte* out) const {
  if (!on_device_) return Fill(table, element_size_, 0, elements, out);
  std::vector<std::byte> piece(std::min(elements, kPieceElements) * element_size_);
  for (std::size_t first = 0; first < elements; first += kPieceElements) {
    const std::size_t count = std::min(elements - first, kPieceElements);
    Fill(table, element_size_, first, count, piece.data());
    library_.Write(out + first * element_size_, piece.data(), count * element_size_);
  }
}

std::size_t MeasuredBuffers::CountWrongAt(const Table& table, std::size_t first, std::size_t elements,
                                          const std::byte* data) const {
  if (!on_device_) return bench::CountWrong(table, element_size_, first, elements, data);
  std::vector<std::byte> piece(std::min(elements, kPieceElements) * element_size_);
  std::size_t wrong = 0;
  for (std::size_t done = 0; done < elements; done += kPieceElements) {
    const std::size_t count = std::min(elements - done, kPieceElements);
    library_.Read(piece.data(), data + done * element_size_, count * element_size_);
    wrong += bench::CountWrong(table, element_size_, first + done, count, piece.data());
  }
  return wrong;
}

std::size_t MeasuredBuffers::CountWrong() const {
  const Values values = ValuesFor(seed_);
  std::map<int, Table> tables;  // one per source in use
  const auto table_of = [&](int source) -> const Table& {
    auto& table = tables[source];
    if (table.empty()) table = source == kReduced ? values.Reduced() : values.Input(source);
    return table;
  };
  std::size_t wrong = 0;
  for (const Segment& segment : ExpectedOutput(operation_, library_.ranks(), library_.rank())) {
    wrong += CountWrongAt(table_of(segment.source), segment.input, segment.length,
                          buffers_.recv + segment.output * element_size_);
  }
  if (!operation_.in_place) {
    wrong += CountWrongAt(table_of(library_.rank()), 0, layout_.send_elements, buffers_.send);
  }
  return wrong;
}

}  // namespace tutti::bench
