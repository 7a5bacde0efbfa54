// How a thread rounds, and how it treats subnormals. A thread that computes for another thread takes on that thread's
// modes, so that a result does not depend on which thread computed it.
//
// Thread-safety: value type; its functions act on the calling thread.
#pragma once

#include <cstdint>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace tutti {

class FloatModes {
 public:
  // The default ones where the processor's are not known.
  FloatModes() = default;

  static FloatModes OfThisThread() { return FloatModes(Register() & kModes); }
  // Cheap if the thread has these modes already.
  void Apply() const {
    const auto now = Register();
    if ((now & kModes) != modes_) SetRegister((now & ~kModes) | modes_);
  }

 private:
  explicit FloatModes(std::uint64_t modes) : modes_(modes) {}

#if defined(__SSE2__)
  // MXCSR without its six sticky flags: denormals are zeros, the exceptions' masks, rounding, flush to zero.
  static constexpr std::uint64_t kModes = 0xffc0;
  static constexpr std::uint64_t kDefault = 0x1f80;
  static std::uint64_t Register() { return _mm_getcsr(); }
  static void SetRegister(std::uint64_t value) { _mm_setcsr(static_cast<unsigned>(value)); }
#elif defined(__aarch64__)
  // FPCR: alternative half precision, default NaN, flush to zero (also of 16-bit floats), rounding, traps.
  static constexpr std::uint64_t kModes = 0x07ff9f00;
  static constexpr std::uint64_t kDefault = 0;
  static std::uint64_t Register() {
    std::uint64_t value;
    asm volatile("mrs %0, fpcr" : "=r"(value));
    return value;
  }
  static void SetRegister(std::uint64_t value) { asm volatile("msr fpcr, %0" : : "r"(value)); }
#else
  static constexpr std::uint64_t kModes = 0;
  static constexpr std::uint64_t kDefault = 0;
  static std::uint64_t Register() { return 0; }
  static void SetRegister(std::uint64_t) {}
#endif

  std::uint64_t modes_ = kDefault;
};

}  // namespace tutti
