// What a thread does between two looks at memory that another thread is about to write: the processor gives its time to
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
