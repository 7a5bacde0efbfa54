// Memory, registration and windows.
#include "interop/nccl/convert.h"
#include "interop/nccl/failure.h"
#include "interop/nccl/groups.h"
#include "interop/nccl/notes.h"
#include "tutti/extension.h"

using namespace tutti::nccl;  // NOLINT: this file is the C boundary of that namespace

ncclResult_t ncclMemAlloc(void** ptr, size_t size) { return FromTutti(tuttiMemAlloc(ptr, size)); }

ncclResult_t ncclMemFree(void* ptr) { return FromTutti(tuttiMemFree(ptr)); }

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle) {
  return FromTutti(tuttiCommRegister(ToTutti(comm), buff, size, handle));
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  return FromTutti(tuttiCommDeregister(ToTutti(comm), handle));
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win, int winFlags) {
  const tutti::CallsFrom caller;
  // The others are hints for NCCL's kernels.
  constexpr int kKnownFlags = NCCL_WIN_COLL_SYMMETRIC | NCCL_WIN_STRICT_ORDERING | NCCL_WIN_GIN_ONLY;
  return Guard(comm, [&] {
    if ((winFlags & ~kKnownFlags) != 0)
      Refuse(ncclInvalidArgument, "winFlags is {:#x}, which has an unknown flag", winFlags);
    return RunOrCollect(comm, [=] {
      const int flags = (winFlags & NCCL_WIN_COLL_SYMMETRIC) != 0 ? TUTTI_WIN_SYMMETRIC : TUTTI_WIN_DEFAULT;
      Check(tuttiCommWindowRegister(ToTutti(comm), buff, size, reinterpret_cast<tuttiWindow_t*>(win), flags));
      NoteWindow(comm, *win, buff);
      return ncclSuccess;
    });
  });
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win) {
  return Guard(comm, [&] {
    Check(tuttiCommWindowDeregister(ToTutti(comm), ToTutti(win)));
    ForgetWindow(win);
    return ncclSuccess;
  });
}

ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void** outUserPtr) {
  return Guard(comm, [&] {
    CheckGiven("outUserPtr", outUserPtr);
    int rank = 0;
    Check(tuttiCommUserRank(ToTutti(comm), &rank));  // fails unless comm is a communicator
    const auto noted = FindWindow(win);
    if (!noted || noted->comm != comm) {
      Refuse(ncclInvalidArgument, "win is not a window of this comm, or has been deregistered");
    }
    *outUserPtr = noted->buffer;
    return ncclSuccess;
  });
}

static_assert(NCCL_SUSPEND_MEM == TUTTI_SUSPEND_MEM && int{ncclStatGpuMemSuspend} == int{tuttiStatGpuMemSuspend});
static_assert(int{ncclStatGpuMemSuspended} == int{tuttiStatGpuMemSuspended});
static_assert(int{ncclStatGpuMemPersist} == int{tuttiStatGpuMemPersist});
static_assert(int{ncclStatGpuMemTotal} == int{tuttiStatGpuMemTotal});

// This and Resume wait for the other ranks. In a group, one thread may call them for several communicators.
ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags) {
  const tutti::CallsFrom caller;
  return Guard(comm,
               [&] { return RunOrCollect(comm, [=] { return FromTutti(tuttiCommSuspend(ToTutti(comm), flags)); }); });
}

ncclResult_t ncclCommResume(ncclComm_t comm) {
  const tutti::CallsFrom caller;
  return Guard(comm, [&] { return RunOrCollect(comm, [=] { return FromTutti(tuttiCommResume(ToTutti(comm))); }); });
}

ncclResult_t ncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value) {
  return FromTutti(tuttiCommMemStats(ToTutti(comm), static_cast<tuttiCommMemStat_t>(static_cast<int>(stat)), value));
}
