#include "src/calls/joining.h"

#include <atomic>
#include <span>

#include "base/extension.h"
#include "src/calls/control_use.h"

namespace tutti::calls {
namespace {

// A failed blocking join leaves no communicator behind. A failed non-blocking one keeps its handle for queries.
void FailToJoin(tuttiComm& handle, tuttiComm_t* out, const Error& failure) {
  if (handle.blocking) {
    Show(out, nullptr);
    // If an abort or another call has claimed the handle first, that call frees it.
    if (handle.life.Claim(false)) Free(handle);
    return;
  }
  {
    const std::lock_guard lock(handle.mutex);
    handle.background_failure = failure.code();
    handle.last_error = failure.what();
  }
  handle.life.Joined();
}

void Tell(void (*hook)(const tuttiCommFacts_t*), tuttiCommFacts_t facts, tuttiComm& handle, tuttiComm* parent) {
  facts.comm = &handle;
  facts.parent = parent;
  hook(&facts);
}

// Enters those that wait outside, or else the users. `mine` keeps the latter inside.
void EnterWork(const Admissions* queued, std::span<const std::shared_ptr<tuttiComm>> users, Admissions& mine) {
  if (queued == nullptr) {
    for (const auto& user : users) mine.push_back(Admission::ForJoin(user));
    return;
  }
  for (const auto& each : *queued) {
    if (each->Await() == Admission::State::gone) ThrowGone();
  }
}

// Makes the communicator and publishes it. Throws if it cannot be made, or was aborted before it was ready.
void MakeIn(tuttiComm& handle, const Make& make, const comm::Options& options, tuttiComm* parent) {
  if (auto* const joining = TheExtension().joining) {
    Tell(joining, comm::FactsOf(options, handle.rank, handle.nranks), handle, parent);
  }
  auto communicator = make(handle);
  if (auto* const joined = TheExtension().joined) Tell(joined, communicator->facts(), handle, parent);
  handle.rank.store(communicator->rank(), std::memory_order_relaxed);
  handle.nranks.store(communicator->size(), std::memory_order_relaxed);
  handle.communicator = std::move(communicator);
  if (!handle.life.Joined().aborting()) return;
  // The abort found nothing to stop here, but it must also reach the other ranks.
  handle.communicator->Abort();
  Throw(tuttiInvalidUsage, "the communicator was aborted in this process while it was being made");
}

}  // namespace

void Show(tuttiComm_t* out, tuttiComm_t handle) { std::atomic_ref(*out).store(handle, std::memory_order_release); }

tuttiResult_t JoinInto(tuttiComm_t* out, int rank, int nranks, const comm::Options& options, tuttiComm* parent,
                       Make make) {
  const auto handle = NewHandle();
  handle->rank.store(rank, std::memory_order_relaxed);
  handle->nranks.store(nranks, std::memory_order_relaxed);
  handle->blocking = options.blocking;
  try {
    if (!options.blocking) handle->background = std::make_shared<Stream>();
    Join join;
    join.runner = handle;
    join.waiting.push_back(handle);
    if (parent != nullptr) join.waiting.push_back(join.parent = parent->shared_from_this());
    join.body = [handle, out, users = join.waiting, options, parent, make = std::move(make)](
                    const Admissions* queued, std::shared_ptr<Turn> turn) {
      Admissions mine;
      const auto result = Guard(handle.get(), [&] {
        EnterWork(queued, users, mine);
        const auto make_in_turn = [&](tuttiComm& child) {
          std::optional<ControlUse> use;
          if (parent != nullptr) use.emplace(*parent, turn, &child.cancel);
          return make(child);
        };
        MakeIn(*handle, make_in_turn, options, parent);
      });
      turn = nullptr;  // perhaps it was not used
      if (result == tuttiSuccess) return result;
      const Error failure(result, LastError(nullptr));
      mine.clear();
      // After an abort the communicator may exist, but may not be used.
      if (handle->blocking || !handle->life.Look().joined()) FailToJoin(*handle, out, failure);
      return result;
    };
    join.fail = [handle, out](const Error& failure) { FailToJoin(*handle, out, failure); };
    Show(out, handle.get());
    return SubmitJoin(std::move(join));
  } catch (...) {  // it was neither run nor queued
    Show(out, nullptr);
    if (handle->life.Claim(false)) Free(*handle);
    throw;
  }
}

tuttiResult_t TakePart(const std::shared_ptr<tuttiComm>& parent, std::function<void()> work) {
  Join join{parent, parent, {parent}, {}, [](const Error&) {}};
  join.body = [parent, work = std::move(work)](const Admissions* queued, std::shared_ptr<Turn> turn) {
    const auto result = Guard(parent.get(), [&] {
      Admissions mine;
      EnterWork(queued, {&parent, 1}, mine);
      const ControlUse use(*parent, std::move(turn), &parent->cancel);
      work();
    });
    if (result != tuttiSuccess && queued != nullptr) KeepForAsyncError(*parent, result);
    return result;
  };
  return SubmitJoin(std::move(join));
}

}  // namespace tutti::calls
