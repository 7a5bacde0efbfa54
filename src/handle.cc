#include "src/handle.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <unordered_set>

namespace tutti {
namespace {

// So many destroyed communicators can still be recognised; a job makes some dozens.
constexpr std::size_t kQuarantine = 1024;

// Process-wide, because a handle is a bare pointer in the hands of C: only a book can tell a live one from a dead one
// without touching memory that may be gone.
struct Book {
  std::mutex mutex;
  std::unordered_set<const tuttiComm*> known;
  std::deque<std::unique_ptr<tuttiComm>> retired;
};

Book& TheBook() {
  static auto* const book = new Book;  // never destroyed: handles may be used while the process exits
  return *book;
}

// Tells this process from those that forked it, without a system call: a page that reads as zero in a forked child,
// until the child marks it as its own. Never 0.
std::uint32_t OwnProcessMark() {
  static auto* const mark = [] {
    void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) ThrowErrno("mapping a page");
    madvise(page, 4096, MADV_WIPEONFORK);
    return new (page) std::atomic<std::uint32_t>(0);
  }();
  const auto value = mark->load(std::memory_order_relaxed);
  if (value != 0) return value;
  const auto own = static_cast<std::uint32_t>(getpid());
  mark->store(own, std::memory_order_relaxed);
  return own;
}

std::string& ThreadError() {
  thread_local std::string text;
  return text;
}

}  // namespace

tuttiComm* NewHandle() {
  auto handle = std::make_unique<tuttiComm>();
  handle->birthmark = OwnProcessMark();
  auto& book = TheBook();
  const std::lock_guard lock(book.mutex);
  book.known.insert(handle.get());
  return handle.release();
}

void RetireHandle(tuttiComm* handle) {
  handle->cancel.store(true, std::memory_order_relaxed);
  handle->background.reset();
  handle->communicator.reset();
  handle->life.store(tuttiComm::Life::destroyed, std::memory_order_release);
  auto& book = TheBook();
  const std::lock_guard lock(book.mutex);
  book.retired.emplace_back(handle);
  if (book.retired.size() <= kQuarantine) return;
  book.known.erase(book.retired.front().get());
  book.retired.pop_front();
}

tuttiComm& Checked(tuttiComm* handle) {
  if (handle == nullptr) Throw(tuttiInvalidArgument, "comm is NULL");
  // The quarantine makes this read safe for any handle of the last thousand.
  if (handle->life.load(std::memory_order_acquire) == tuttiComm::Life::destroyed) {
    Throw(tuttiInvalidArgument, "comm was destroyed or aborted before");
  }
  if (handle->birthmark != OwnProcessMark()) {
    Throw(tuttiInvalidUsage, "comm belongs to the parent process; after fork() a child must make its own");
  }
  return *handle;
}

tuttiComm& Ready(tuttiComm* pointer) {
  auto& handle = Checked(pointer);
  switch (handle.life.load(std::memory_order_acquire)) {
    case tuttiComm::Life::joining: Throw(tuttiInvalidUsage, "comm is still being made; poll tuttiCommGetAsyncError");
    case tuttiComm::Life::finalized:
      Throw(tuttiInvalidUsage, "comm was finalized; only getters and Destroy may follow");
    default: return handle;
  }
}

Communicator& Usable(tuttiComm* pointer) {
  auto& handle = Ready(pointer);
  if (handle.communicator == nullptr) {
    const std::lock_guard lock(handle.mutex);
    throw Error(handle.first_failure, handle.last_error);
  }
  if (handle.communicator->failed()) throw *handle.communicator->failure();
  return *handle.communicator;
}

tuttiResult_t Remember(tuttiComm* handle, const Error& error) {
  ThreadError() = error.what();
  bool known = false;
  if (handle != nullptr) {
    auto& book = TheBook();
    const std::lock_guard lock(book.mutex);
    known = book.known.contains(handle);
  }
  if (known) {
    const std::lock_guard lock(handle->mutex);
    handle->last_error = error.what();
  }
  return error.code();
}

const char* LastError(tuttiComm* handle) {
  if (handle == nullptr) return ThreadError().c_str();
  const std::lock_guard lock(handle->mutex);
  // A copy of this thread's own: another thread's failure must not move the text under the reader.
  ThreadError() = handle->last_error;
  return ThreadError().c_str();
}

}  // namespace tutti
