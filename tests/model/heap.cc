#include "tests/model/heap.h"

#include <cstring>
#include <new>
#include <utility>

namespace tutti::model {

Heap::Heap() : storage_(new std::byte[kActors * kRegion + kLine]), cells_(kActors * kRegion) {
  const auto start = reinterpret_cast<std::uintptr_t>(storage_.get());
  bytes_ = storage_.get() + (kLine - start % kLine) % kLine;
  used_.fill(kRegion);
}

void Heap::Reset() {
  for (int a = 0; a < kActors; ++a) std::memset(bytes_ + static_cast<std::size_t>(a) * kRegion, 0, used_[a]);
  used_.fill(0);
  ++execution_;
}

void* Heap::Allocate(int actor, std::size_t bytes) {
  // A line before the allocation stores its size.
  const std::size_t whole = kLine + (bytes + kLine - 1) / kLine * kLine;
  auto& used = used_[actor];
  if (whole > kRegion - used) throw std::bad_alloc();
  std::byte* const begin = bytes_ + static_cast<std::size_t>(actor) * kRegion + used;
  used += whole;
  std::memcpy(begin, &bytes, sizeof bytes);
  return begin + kLine;
}

std::size_t Heap::SizeOf(const void* allocation) const {
  std::size_t bytes = 0;
  std::memcpy(&bytes, static_cast<const std::byte*>(allocation) - kLine, sizeof bytes);
  return bytes;
}

Heap::Cell& Heap::Fresh(std::size_t offset) {
  auto& cell = cells_[offset];
  if (cell.execution != execution_) {
    cell = Cell{};
    cell.execution = execution_;
  }
  return cell;
}

const char* Heap::Conflict(int actor, const Clock& clock, const Cell& cell) {
  if (cell.freed) return "uses memory that was freed";
  if (!cell.written || clock.at[cell.writer] >= cell.stamp) return nullptr;
  if (cell.writer == actor || cell.writer == StreamOf(actor)) return nullptr;
  return cell.writer >= kActors ? "races with a streamed store, which no fence has ordered" : "races with a write";
}

const char* Heap::Touch(int actor, const Clock& clock, std::uint16_t stream_stamp, const volatile void* address,
                        std::size_t bytes, Access access) {
  const auto first = OffsetOf(address);
  for (std::size_t at = first; at < first + bytes; ++at) {
    auto& cell = Fresh(at);
    if (const char* const wrong = Conflict(actor, clock, cell)) return wrong;
    if (access == Access::read) {
      cell.reads[actor] = clock.at[actor];
      continue;
    }
    for (int other = 0; other < kActors; ++other) {
      if (other != actor && clock.at[other] < cell.reads[other]) return "races with a read";
    }
    cell.written = cell.news = true;
    cell.freed = access == Access::free;
    cell.writer = static_cast<std::uint8_t>(access == Access::streamed ? StreamOf(actor) : actor);
    cell.stamp = access == Access::streamed ? stream_stamp : clock.at[actor];
  }
  return nullptr;
}

const char* Heap::TouchAtomically(int actor, const Clock& clock, const volatile void* address, std::size_t bytes) {
  return Touch(actor, clock, 0, address, bytes, Access::read);
}

std::optional<Heap::PlainWrite> Heap::TakePlainWrite(const volatile void* address) {
  auto& cell = Fresh(OffsetOf(address));
  if (!std::exchange(cell.news, false)) return std::nullopt;
  return PlainWrite{cell.writer, cell.stamp};
}

}  // namespace tutti::model
