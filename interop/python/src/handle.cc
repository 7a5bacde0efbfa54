#include "handle.h"

#include <atomic>
#include <chrono>

namespace nb = nanobind;

namespace tutti_python {

namespace {

// How often a wait in Python code looks for signals.
constexpr std::chrono::milliseconds kSignalPeriod(50);

}  // namespace

// The process's first thread, or the one that forked it, is Python's main thread: Python's own rule, which it does not
// offer as a function.
bool IsMainThread() {
  static thread_local const bool is_main = [] {
    const nb::object threading = nb::module_::import_("threading");
    return nb::cast<unsigned long>(threading.attr("main_thread")().attr("ident")) == PyThread_get_thread_ident();
  }();
  return is_main;
}

Handle::~Handle() {
  if (communicator_ != nullptr && !freed_) tuttiCommDestroy(communicator_);
}

tuttiComm_t Handle::get() const {
  // The library writes it while another thread waits for it.
  return std::atomic_ref(const_cast<tuttiComm_t&>(communicator_)).load();
}

void Handle::Opened() {
  CheckSignals();  // Ctrl-C may have come just when all ranks had
  Check(tuttiCommUserRank(communicator_, &rank_));
  Check(tuttiCommCount(communicator_, &size_));
  open_ = true;
}

void Handle::FailClosed() {
  Fail(tuttiInvalidUsage, "the communicator is closed; a closed communicator takes no calls");
}

void Handle::FailCall(tuttiResult_t code, const std::string& message) {
  CheckSignals();  // Ctrl-C ended the call
  Fail(code, message);
}

std::string Handle::LastError() const {
  // In a join that failed, the library has taken the communicator back.
  return tuttiGetLastError(get());
}

void Handle::AddPending() {
  const std::lock_guard lock(mutex_);
  ++pending_;
}

void Handle::EndPending() {
  const std::lock_guard lock(mutex_);
  if (--pending_ == 0) none_pending_.notify_all();
}

void Handle::AwaitPending() {
  for (bool waited = false; !waited;) {
    {
      const nb::gil_scoped_release released;
      std::unique_lock lock(mutex_);
      waited = none_pending_.wait_for(lock, kSignalPeriod, [this] { return pending_ == 0; });
    }
    CheckSignals();
  }
}

void Handle::Close() {
  if (!open_) return;
  AwaitPending();
  if (!open_) return;  // another thread was faster
  open_ = false;
  freed_ = true;
  auto result = tuttiSuccess;
  std::string message;
  {
    const MainThreadInside inside(*this);
    const nb::gil_scoped_release released;
    result = tuttiCommDestroy(communicator_);
    if (result != tuttiSuccess) message = LastError();
  }
  if (result != tuttiSuccess) FailCall(result, message);
}

void Handle::Abort() {
  if (!open_) return;
  open_ = false;
  freed_ = true;
  {
    const nb::gil_scoped_release released;
    tuttiCommAbort(communicator_);
  }
}

void Handle::Revoke() {
  RequireOpen();
  auto result = tuttiSuccess;
  {
    const nb::gil_scoped_release released;
    result = tuttiCommRevoke(communicator_, TUTTI_REVOKE_DEFAULT);
  }
  if (result != tuttiSuccess) FailCall(result, LastError());
}

void Handle::Interrupt() {
  const tuttiComm_t communicator = get();
  if (main_thread_inside_ == 0 || communicator == nullptr) return;
  const bool joining = !open_;
  const nb::gil_scoped_release released;
  if (joining) {
    tuttiCommAbort(communicator);
  } else {
    tuttiCommRevoke(communicator, TUTTI_REVOKE_DEFAULT);
  }
}

}  // namespace tutti_python
