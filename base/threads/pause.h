// Pause() is for a thread that polls memory which another thread is about to write. The processor then gives its time to
// the other thread of the core, if there is one.
//
// Thread-safety: any thread.
#pragma once

namespace tutti {

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace tutti
