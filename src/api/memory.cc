// The C boundary of memory, windows and streams.
#include "src/memory/memory.h"

#include "src/launch/control_use.h"
#include "src/launch/group.h"

using namespace tutti;  // NOLINT: this file is the C boundary of that namespace

tuttiResult_t tuttiMemAlloc(void** ptr, size_t size) {
  return launch::Guard(nullptr, [&] {
    launch::CheckOutput("ptr", ptr);
    *ptr = memory::AllocateShared(size);
  });
}

tuttiResult_t tuttiMemFree(void* ptr) {
  return launch::Guard(nullptr, [&] { memory::FreeShared(ptr); });
}

tuttiResult_t tuttiCommRegister(const tuttiComm_t comm, void* buff, size_t size, void** handle) {
  return launch::Guard(comm, [&] {
    const launch::Operating operating(comm);
    launch::CheckOutput("buff", buff);
    launch::CheckOutput("handle", handle);
    if (size == 0) Throw(tuttiInvalidArgument, "size is 0");
    auto& communicator = launch::Usable(operating.handle());
    const std::lock_guard lock(communicator);
    communicator.RegisterBuffer(static_cast<std::byte*>(buff), size);
    *handle = buff;
  });
}

tuttiResult_t tuttiCommDeregister(const tuttiComm_t comm, void* handle) {
  return launch::Guard(comm, [&] {
    const launch::Asking asking(comm);
    auto& communicator = launch::Made(asking.handle());
    if (handle == nullptr) return;  // as in NCCL, and as with free()
    const std::lock_guard lock(communicator);
    communicator.DeregisterBuffer(static_cast<std::byte*>(handle));
  });
}

tuttiResult_t tuttiCommWindowRegister(tuttiComm_t comm, void* buff, size_t size, tuttiWindow_t* win, int winFlags) {
  return launch::Guard(comm, [&] {
    const launch::Operating operating(comm);
    launch::Usable(operating.handle());
    launch::CheckOutput("buff", buff);
    launch::CheckOutput("win", win);
    if (size == 0) Throw(tuttiInvalidArgument, "size is 0");
    if (winFlags != TUTTI_WIN_DEFAULT)
      Throw(tuttiInvalidArgument, "winFlags is {}; only TUTTI_WIN_DEFAULT exists", winFlags);
    const launch::ControlUse use(operating.handle());
    *win = launch::Usable(operating.handle()).RegisterWindow(buff, size);
  });
}

tuttiResult_t tuttiCommWindowDeregister(tuttiComm_t comm, tuttiWindow_t win) {
  return launch::Guard(comm, [&] {
    const launch::Asking asking(comm);
    auto& communicator = launch::Made(asking.handle());
    if (win == nullptr) return;
    const std::lock_guard lock(communicator);
    communicator.DeregisterWindow(win);
  });
}

tuttiResult_t tuttiCommWindowPointer(tuttiComm_t comm, tuttiWindow_t win, int peer, size_t offset, void** ptr) {
  return launch::Guard(comm, [&] {
    const launch::Asking asking(comm);
    launch::CheckOutput("ptr", ptr);
    auto& communicator = launch::Made(asking.handle());
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
  return launch::Guard(comm, [&] {
    const launch::Operating operating(comm);
    launch::Alive(operating.handle());
    if (flags != TUTTI_SUSPEND_MEM) Throw(tuttiInvalidArgument, "flags is {:#x}; it must be TUTTI_SUSPEND_MEM", flags);
    const launch::ControlUse use(operating.handle());
    launch::Alive(operating.handle()).Suspend();
  });
}

tuttiResult_t tuttiCommResume(tuttiComm_t comm) {
  return launch::Guard(comm, [&] {
    const launch::Operating operating(comm);
    launch::Alive(operating.handle());
    const launch::ControlUse use(operating.handle());
    launch::Alive(operating.handle()).Resume();
  });
}

tuttiResult_t tuttiCommMemStats(tuttiComm_t comm, tuttiCommMemStat_t stat, uint64_t* value) {
  return launch::Guard(comm, [&] {
    const launch::Asking asking(comm);
    launch::CheckOutput("value", value);
    *value = launch::Made(asking.handle()).MemoryStat(stat);
  });
}

tuttiResult_t tuttiStreamCreate(tuttiStream_t* stream) {
  return launch::Guard(nullptr, [&] {
    launch::CheckOutput("stream", stream);
    *stream = launch::NewStream();
  });
}

tuttiResult_t tuttiStreamDestroy(tuttiStream_t stream) {
  return launch::Guard(nullptr, [&] { launch::DestroyStream(stream); });
}

tuttiResult_t tuttiStreamSynchronize(tuttiStream_t stream) {
  return launch::GuardResult(nullptr, [&] { return launch::CheckedStream(stream)->Synchronize(); });
}

tuttiResult_t tuttiStreamQuery(tuttiStream_t stream) {
  return launch::GuardResult(nullptr, [&] { return launch::CheckedStream(stream)->Query(); });
}
