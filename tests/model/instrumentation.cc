// The functions that the compiler calls for each access to memory in code that it compiles with -fsanitize=thread.
// Their names and meanings are those of the sanitizer's run-time library, which is not linked here.
#include <cstring>

#include "tests/model/execution.h"

namespace tutti::model {
namespace {

std::memory_order OrderOf(int order) { return static_cast<std::memory_order>(order & 0xf); }

void Touch(const volatile void* address, std::size_t bytes, Access access) {
  if (auto* const execution = Checking()) {
    const Entry entry(*execution);
    execution->Touch(address, bytes, access);
  }
}

template <typename T>
T Load(const volatile T* address, int order) {
  auto* const execution = Checking();
  if (execution == nullptr) return __atomic_load_n(address, __ATOMIC_SEQ_CST);
  const Entry entry(*execution);
  return static_cast<T>(execution->Load(address, sizeof(T), OrderOf(order)));
}

template <typename T>
void Store(volatile T* address, T value, int order) {
  auto* const execution = Checking();
  if (execution == nullptr) return __atomic_store_n(address, value, __ATOMIC_SEQ_CST);
  const Entry entry(*execution);
  execution->Store(address, sizeof(T), value, OrderOf(order));
}

template <typename T, typename Update>
T Change(volatile T* address, int order, Update&& update) {
  auto* const execution = Checking();
  if (execution == nullptr) {
    const T old = *address;  // plain: there is only one thread
    *address = update(old);
    return old;
  }
  const Entry entry(*execution);
  return static_cast<T>(
      execution->Rmw(address, sizeof(T), OrderOf(order), std::memory_order_relaxed,
                     [&](std::uint64_t old) { return std::optional<std::uint64_t>(update(static_cast<T>(old))); }));
}

template <typename T>
bool CompareExchange(volatile T* address, T* expected, T desired, int order, int failed) {
  const T wanted = *expected;
  auto* const execution = Checking();
  if (execution == nullptr) {
    *expected = *address;
    if (*expected == wanted) *address = desired;
    return *expected == wanted;
  }
  const Entry entry(*execution);
  *expected =
      static_cast<T>(execution->Rmw(address, sizeof(T), OrderOf(order), OrderOf(failed), [&](std::uint64_t old) {
        return static_cast<T>(old) == wanted ? std::optional<std::uint64_t>(desired) : std::nullopt;
      }));
  return *expected == wanted;
}

}  // namespace
}  // namespace tutti::model

using namespace tutti::model;  // NOLINT: below are the compiler's names, outside all namespaces

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void** address, void*) { Touch(address, sizeof(void*), Access::write); }
void __tsan_vptr_read(void** address) { Touch(address, sizeof(void*), Access::read); }
void __tsan_read_range(void* address, std::size_t bytes) { Touch(address, bytes, Access::read); }
void __tsan_write_range(void* address, std::size_t bytes) { Touch(address, bytes, Access::write); }

void __tsan_atomic_thread_fence(int order) {
  if (auto* const execution = Checking()) {
    const Entry entry(*execution);
    execution->Fence(OrderOf(order));
  }
}
// In the model, the compiler reorders only what the memory model allows.
void __tsan_atomic_signal_fence(int) {}

// A macro, because the compiler fixes the names: one for each size and operation.
#define TUTTI_MODEL_ACCESSES(bytes)                                                           \
  void __tsan_read##bytes(void* address) { Touch(address, bytes, Access::read); }             \
  void __tsan_write##bytes(void* address) { Touch(address, bytes, Access::write); }           \
  void __tsan_unaligned_read##bytes(void* address) { Touch(address, bytes, Access::read); }   \
  void __tsan_unaligned_write##bytes(void* address) { Touch(address, bytes, Access::write); } \
  void __tsan_volatile_read##bytes(void* address) { Touch(address, bytes, Access::read); }    \
  void __tsan_volatile_write##bytes(void* address) { Touch(address, bytes, Access::write); }

#define TUTTI_MODEL_ATOMICS(bits)                                                                                      \
  using Word##bits = std::uint##bits##_t;                                                                              \
  Word##bits __tsan_atomic##bits##_load(const volatile Word##bits* at, int order) { return Load(at, order); }          \
  void __tsan_atomic##bits##_store(volatile Word##bits* at, Word##bits value, int order) { Store(at, value, order); }  \
  Word##bits __tsan_atomic##bits##_exchange(volatile Word##bits* at, Word##bits value, int order) {                    \
    return Change(at, order, [&](Word##bits) { return value; });                                                       \
  }                                                                                                                    \
  Word##bits __tsan_atomic##bits##_fetch_add(volatile Word##bits* at, Word##bits value, int order) {                   \
    return Change(at, order, [&](Word##bits old) { return static_cast<Word##bits>(old + value); });                    \
  }                                                                                                                    \
  Word##bits __tsan_atomic##bits##_fetch_sub(volatile Word##bits* at, Word##bits value, int order) {                   \
    return Change(at, order, [&](Word##bits old) { return static_cast<Word##bits>(old - value); });                    \
  }                                                                                                                    \
  Word##bits __tsan_atomic##bits##_fetch_and(volatile Word##bits* at, Word##bits value, int order) {                   \
    return Change(at, order, [&](Word##bits old) { return static_cast<Word##bits>(old & value); });                    \
  }                                                                                                                    \
  Word##bits __tsan_atomic##bits##_fetch_or(volatile Word##bits* at, Word##bits value, int order) {                    \
    return Change(at, order, [&](Word##bits old) { return static_cast<Word##bits>(old | value); });                    \
  }                                                                                                                    \
  Word##bits __tsan_atomic##bits##_fetch_xor(volatile Word##bits* at, Word##bits value, int order) {                   \
    return Change(at, order, [&](Word##bits old) { return static_cast<Word##bits>(old ^ value); });                    \
  }                                                                                                                    \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile Word##bits* at, Word##bits* expected, Word##bits desired, \
                                                    int order, int failed) {                                           \
    return CompareExchange(at, expected, desired, order, failed);                                                      \
  }                                                                                                                    \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile Word##bits* at, Word##bits* expected, Word##bits desired,   \
                                                  int order, int failed) {                                             \
    return CompareExchange(at, expected, desired, order, failed);                                                      \
  }                                                                                                                    \
  Word##bits __tsan_atomic##bits##_compare_exchange_val(volatile Word##bits* at, Word##bits expected,                  \
                                                        Word##bits desired, int order, int failed) {                   \
    CompareExchange(at, &expected, desired, order, failed);                                                            \
    return expected;                                                                                                   \
  }

TUTTI_MODEL_ACCESSES(1)
TUTTI_MODEL_ACCESSES(2)
TUTTI_MODEL_ACCESSES(4)
TUTTI_MODEL_ACCESSES(8)
TUTTI_MODEL_ACCESSES(16)
TUTTI_MODEL_ATOMICS(8)
TUTTI_MODEL_ATOMICS(16)
TUTTI_MODEL_ATOMICS(32)
TUTTI_MODEL_ATOMICS(64)
}
