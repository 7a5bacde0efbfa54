// The C boundary of memory, windows and streams.
#include "src/memory/memory.h"

#include "src/calls/control_use.h"
#include "src/calls/group.h"
#include "tutti/extension.h"

using namespace tutti;  // NOLINT: this file is the C boundary of that namespace

tuttiResult_t tuttiMemAlloc(void** ptr, size_t size) {
  return calls::Guard(nullptr, [&] {
    calls::CheckOutput("ptr", ptr);
    *ptr = memory::AllocateShared(size);
  });
}

tuttiResult_t tuttiMemFree(void* ptr) {
  return calls::Guard(nullptr, [&] { memory::FreeShared(ptr); });
}

tuttiResult_t tuttiCommRegister(const tuttiComm_t comm, void* buff, size_t size, void** handle) {
  return calls::Guard(comm, [&] {
    const calls::Operating operating(comm);
    calls::CheckOutput("buff", buff);
    calls::CheckOutput("handle", handle);
    if (size == 0) Throw(tuttiInvalidArgument, "size is 0");
    auto& communicator = calls::Usable(operating.handle());
    const std::lock_guard lock(communicator);
    communicator.RegisterBuffer(static_cast<std::byte*>(buff), size);
    *handle = buff;
  });
}

tuttiResult_t tuttiCommDeregister(const tuttiComm_t comm, void* handle) {
  return calls::Guard(comm, [&] {
    const calls::Asking asking(comm);
    auto& communicator = calls::Made(asking.handle());
    if (handle == nullptr) return;  // as in NCCL, and as with free()
    const std::lock_guard lock(communicator);
    communicator.DeregisterBuffer(static_cast<std::byte*>(handle));
  });
}

tuttiResult_t tuttiCommWindowRegister(tuttiComm_t comm, void* buff, size_t size, tuttiWindow_t* win, int winFlags) {
  const CallsFrom caller;
  return calls::Guard(comm, [&] {
    const calls::Operating operating(comm);
    calls::Usable(operating.handle());
    calls::CheckOutput("buff", buff);
    calls::CheckOutput("win", win);
    if (size == 0) Throw(tuttiInvalidArgument, "size is 0");
    if (winFlags != TUTTI_WIN_DEFAULT && winFlags != TUTTI_WIN_SYMMETRIC)
      Throw(tuttiInvalidArgument, "winFlags is {}; there are TUTTI_WIN_DEFAULT and TUTTI_WIN_SYMMETRIC", winFlags);
    const calls::ControlUse use(operating.handle());
    *win = calls::Usable(operating.handle()).RegisterWindow(buff, size, winFlags == TUTTI_WIN_SYMMETRIC);
  });
}

tuttiResult_t tuttiCommWindowDeregister(tuttiComm_t comm, tuttiWindow_t win) {
  return calls::Guard(comm, [&] {
    const calls::Asking asking(comm);
    auto& communicator = calls::Made(asking.handle());
    if (win == nullptr) return;
    const std::lock_guard lock(communicator);
    communicator.DeregisterWindow(win);
  });
}

tuttiResult_t tuttiCommWindowPointer(tuttiComm_t comm, tuttiWindow_t win, int peer, size_t offset, void** ptr) {
  return calls::Guard(comm, [&] {
    const calls::Asking asking(comm);
    calls::CheckOutput("ptr", ptr);
    auto& communicator = calls::Made(asking.handle());
    if (peer < 0 || peer >= communicator.size()) {
      Throw(tuttiInvalidArgument, "peer is {}; comm has ranks 0 to {}", peer, communicator.size() - 1);
    }
    const auto part = communicator.PartOf(win, peer);
    if (part.empty()) {
      *ptr = nullptr;
      return;
    }
    if (offset >= part.size()) {
      Throw(tuttiInvalidArgument, "offset is {}, but rank {}'s part of the window has {} bytes", offset, peer,
            part.size());
    }
    *ptr = part.data() + offset;
  });
}

tuttiResult_t tuttiCommSuspend(tuttiComm_t comm, int flags) {
  const CallsFrom caller;
  return calls::Guard(comm, [&] {
    const calls::Operating operating(comm);
    calls::Alive(operating.handle());
    if (flags != TUTTI_SUSPEND_MEM) Throw(tuttiInvalidArgument, "flags is {:#x}; it must be TUTTI_SUSPEND_MEM", flags);
    const calls::ControlUse use(operating.handle());
    calls::Alive(operating.handle()).Suspend();
  });
}

tuttiResult_t tuttiCommResume(tuttiComm_t comm) {
  const CallsFrom caller;
  return calls::Guard(comm, [&] {
    const calls::Operating operating(comm);
    calls::Alive(operating.handle());
    const calls::ControlUse use(operating.handle());
    calls::Alive(operating.handle()).Resume();
  });
}

tuttiResult_t tuttiCommMemStats(tuttiComm_t comm, tuttiCommMemStat_t stat, uint64_t* value) {
  return calls::Guard(comm, [&] {
    const calls::Asking asking(comm);
    calls::CheckOutput("value", value);
    *value = calls::Made(asking.handle()).MemoryStat(stat);
  });
}

tuttiResult_t tuttiStreamCreate(tuttiStream_t* stream) {
  return calls::Guard(nullptr, [&] {
    calls::CheckOutput("stream", stream);
    *stream = calls::NewStream();
  });
}

tuttiResult_t tuttiStreamDestroy(tuttiStream_t stream) {
  return calls::Guard(nullptr, [&] { calls::DestroyStream(stream); });
}

tuttiResult_t tuttiStreamSynchronize(tuttiStream_t stream) {
  return calls::GuardResult(nullptr, [&] { return calls::CheckedStream(stream)->Synchronize(); });
}

tuttiResult_t tuttiStreamQuery(tuttiStream_t stream) {
  return calls::GuardResult(nullptr, [&] { return calls::CheckedStream(stream)->Query(); });
}
