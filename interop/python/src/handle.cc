#include "handle.h"

#include <algorithm>
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
  CheckSignals(open_ ? kCtrlCEndedCall : "Ctrl-C ended a call of tutti: the new communicator is given up");
  Fail(code, message);
}

std::string Handle::LastError() const {
  // In a join that failed, the library has taken the communicator back.
  return tuttiGetLastError(get());
}

std::uint64_t Handle::TakeTurn() {
  const std::lock_guard lock(mutex_);
  turns_.insert(next_turn_);
  waiting_.store(turns_.size(), std::memory_order_relaxed);
  return next_turn_++;
}

bool Handle::AwaitTurn(std::uint64_t turn, std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [&] { return stopped_ || *turns_.begin() == turn; });
}

void Handle::EndTurn(std::uint64_t turn) {
  {
    const std::lock_guard lock(mutex_);
    turns_.erase(turn);
    waiting_.store(turns_.size(), std::memory_order_relaxed);
  }
  changed_.notify_all();
}

void Handle::AwaitIdle() {
  for (bool idle = !busy(); !idle;) {
    {
      const nb::gil_scoped_release released;
      std::unique_lock lock(mutex_);
      idle = changed_.wait_for(lock, kSignalPeriod, [this] { return turns_.empty(); });
    }
    CheckSignals();
  }
}

void Handle::Close() {
  if (!open_) return;
  AwaitIdle();
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
  if (result == tuttiSuccess) return;
  CheckSignals();
  // Ctrl-C came before, and its thread only now: the communicator is gone, as it should be.
  if (!interrupted_) Fail(result, message);
}

void Handle::Abort() {
  if (!open_) return;
  open_ = false;
  freed_ = true;
  {
    const nb::gil_scoped_release released;
    tuttiCommAbort(communicator_);
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
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
  const bool joining_or_closing = !open_;
  interrupted_ = interrupted_ || joining_or_closing;
  const nb::gil_scoped_release released;
  if (joining_or_closing) {
    tuttiCommAbort(communicator);
  } else {
    tuttiCommRevoke(communicator, TUTTI_REVOKE_DEFAULT);
  }
}

constinit thread_local bool Turns::in_stream = false;

void Turns::Take(const std::shared_ptr<Handle>& handle) {
  const bool taken = std::ranges::any_of(taken_, [&](const auto& each) { return each.first == handle; });
  if (!taken) taken_.emplace_back(handle, handle->TakeTurn());
}

void Turns::Await() {
  for (const auto& [handle, turn] : taken_) {
    const MainThreadInside inside(*handle);
    for (bool come = false; !come;) {
      {
        const nb::gil_scoped_release released;
        come = handle->AwaitTurn(turn, kSignalPeriod);
      }
      CheckSignals();
    }
    handle->RequireOpen();
  }
}

void Turns::AwaitWithoutGil() {
  constexpr std::chrono::hours kLong(1);
  for (const auto& [handle, turn] : taken_) {
    while (!handle->AwaitTurn(turn, kLong)) continue;
  }
}

void Turns::End() {
  for (const auto& [handle, turn] : taken_) handle->EndTurn(turn);
  taken_.clear();
}

}  // namespace tutti_python
