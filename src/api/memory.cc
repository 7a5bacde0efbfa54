// The C boundary of memory, windows and streams.
#include "src/launch/group.h"
#include "src/memory/memory.h"

using namespace tutti;  // NOLINT: this file is the C boundary of that namespace

tuttiResult_t tuttiMemAlloc(void** ptr, size_t size) {
  return Guard(nullptr, [&] {
    CheckOutput("ptr", ptr);
    *ptr = AllocateShared(size);
  });
}

tuttiResult_t tuttiMemFree(void* ptr) {
  return Guard(nullptr, [&] { FreeShared(ptr); });
}

tuttiResult_t tuttiCommRegister(const tuttiComm_t comm, void* buff, size_t size, void** handle) {
  return Guard(comm, [&] {
    const Operating operating(comm);
    CheckOutput("buff", buff);
    CheckOutput("handle", handle);
    if (size == 0) Throw(tuttiInvalidArgument, "size is 0");
    auto& communicator = Usable(operating.handle());
    const std::lock_guard lock(communicator);
    communicator.RegisterBuffer(static_cast<std::byte*>(buff), size);
    *handle = buff;
  });
}

tuttiResult_t tuttiCommDeregister(const tuttiComm_t comm, void* handle) {
  return Guard(comm, [&] {
    const Asking asking(comm);
    CheckOutput("handle", handle);
    auto& communicator = Made(asking.handle());
    const std::lock_guard lock(communicator);
    communicator.DeregisterBuffer(static_cast<std::byte*>(handle));
  });
}

tuttiResult_t tuttiCommWindowRegister(tuttiComm_t comm, void* buff, size_t size, tuttiWindow_t* win, int winFlags) {
  return Guard(comm, [&] {
    const Operating operating(comm);
    auto& communicator = Usable(operating.handle());
    CheckOutput("buff", buff);
    CheckOutput("win", win);
    if (size == 0) Throw(tuttiInvalidArgument, "size is 0");
    if (winFlags != TUTTI_WIN_DEFAULT)
      Throw(tuttiInvalidArgument, "winFlags is {}; only TUTTI_WIN_DEFAULT exists", winFlags);
    ControlTurn turn(operating.handle().shared_from_this());
    const auto taken = turn.Take();
    const std::lock_guard lock(communicator);
    *win = communicator.RegisterWindow(buff, size);
  });
}

tuttiResult_t tuttiCommWindowDeregister(tuttiComm_t comm, tuttiWindow_t win) {
  return Guard(comm, [&] {
    const Operating operating(comm);
    auto& communicator = Usable(operating.handle());
    ControlTurn turn(operating.handle().shared_from_this());
    const auto taken = turn.Take();
    const std::lock_guard lock(communicator);
    communicator.DeregisterWindow(win);
  });
}

tuttiResult_t tuttiStreamCreate(tuttiStream_t* stream) {
  return Guard(nullptr, [&] {
    CheckOutput("stream", stream);
    *stream = NewStream();
  });
}

tuttiResult_t tuttiStreamDestroy(tuttiStream_t stream) {
  return Guard(nullptr, [&] { DestroyStream(stream); });
}

tuttiResult_t tuttiStreamSynchronize(tuttiStream_t stream) {
  return GuardResult(nullptr, [&] { return CheckedStream(stream)->Synchronize(); });
}

tuttiResult_t tuttiStreamQuery(tuttiStream_t stream) {
  return GuardResult(nullptr, [&] { return CheckedStream(stream)->Query(); });
}
