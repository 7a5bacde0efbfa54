#include "base/process_mark.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <new>

#include "base/error.h"
#include "base/threads/made_once.h"

namespace tutti {
namespace {

// Process ids are reused, so the time is part of the mark.
std::uint64_t NewMark() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const auto nanoseconds =
      static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
  const std::uint64_t mark = (nanoseconds << 22) ^ static_cast<std::uint64_t>(getpid());
  return mark == 0 ? 1 : mark;
}

// A page that reads as zero in a forked child, until the child marks it as its own.
class MarkedPage {
 public:
  MarkedPage() {
    void* const memory = mmap(nullptr, sizeof(Word), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) ThrowErrno("cannot map a page");
    if (madvise(memory, sizeof(Word), MADV_WIPEONFORK) != 0) {
      const int error = errno;
      munmap(memory, sizeof(Word));
      ThrowSystem("cannot mark a page (MADV_WIPEONFORK)", error);
    }
    word_ = new (memory) Word(0);
  }
  ~MarkedPage() { munmap(word_, sizeof(Word)); }
  MarkedPage(const MarkedPage&) = delete;
  MarkedPage& operator=(const MarkedPage&) = delete;

  std::atomic<std::uint64_t>& word() const { return *word_; }

 private:
  using Word = std::atomic<std::uint64_t>;

  Word* word_;
};

std::atomic<std::uint64_t>& OwnWord() {
  static constinit MadeOnce<MarkedPage> page;
  return page.Get().word();
}

// Never 0, and different in every process: a child of fork() gets a new mark. Only the first call makes system calls.
std::uint64_t OwnProcessMark() {
  auto& word = OwnWord();
  auto mark = word.load(std::memory_order_relaxed);
  if (mark != 0) return mark;
  const auto fresh = NewMark();
  // Two threads may mark the page at once: the first one's mark counts.
  return word.compare_exchange_strong(mark, fresh, std::memory_order_relaxed) ? fresh : mark;
}

}  // namespace

Birthmark::Birthmark() : own_(OwnWord()), mark_(OwnProcessMark()) {}

}  // namespace tutti
