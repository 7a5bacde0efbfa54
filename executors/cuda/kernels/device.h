// Machine primitives of device code - thread indices, barriers, atomics - for a GPU and for its host kernel on the host
// (host_kernel.h). With multimem.h and the conversions of element.h, all of the executor that distinguishes the two.
//
// Thread-safety: everything here is called by device threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#if defined(__CUDACC__)
#include <cuda/atomic>
#else
#include <sched.h>

#include <atomic>

#include "executors/cuda/kernels/host_kernel.h"
#endif

// Macros, because standard C++ cannot express a function's target or a variable's memory space.
#if defined(__CUDACC__)
#define TUTTI_DEVICE __device__ __forceinline__
#define TUTTI_DEVICE_CALL __device__ __noinline__  // a call costs less than many inlined copies
#define TUTTI_SHARED __shared__
#define TUTTI_UNROLL _Pragma("unroll")
#define TUTTI_ROLLED _Pragma("unroll 1")  // by default the compiler unrolls a loop four times
#else
#define TUTTI_DEVICE inline
#define TUTTI_DEVICE_CALL inline
#define TUTTI_SHARED
#define TUTTI_UNROLL
#define TUTTI_ROLLED
#endif

namespace tutti::cuda_kernels {

#if defined(__CUDACC__)

template <typename T>
using SystemAtomic = cuda::atomic_ref<T, cuda::thread_scope_system>;
template <typename T>
using GpuAtomic = cuda::atomic_ref<T, cuda::thread_scope_device>;
inline constexpr auto kRelaxed = cuda::memory_order_relaxed;
inline constexpr auto kAcquire = cuda::memory_order_acquire;
inline constexpr auto kRelease = cuda::memory_order_release;
inline constexpr auto kAcquireRelease = cuda::memory_order_acq_rel;

TUTTI_DEVICE std::uint32_t ThreadIndex() { return threadIdx.x; }
TUTTI_DEVICE std::uint32_t ThreadCount() { return blockDim.x; }
TUTTI_DEVICE std::uint32_t BlockIndex() { return blockIdx.x; }
TUTTI_DEVICE void Sync() { __syncthreads(); }
// Returns whether `mine` is true for any thread of the block.
TUTTI_DEVICE bool SyncOr(bool mine) { return __syncthreads_or(mine) != 0; }
TUTTI_DEVICE void Pause() {}

// Threads that execute an instruction together, and of these the ones that access one line of 128 bytes (line128.h).
inline constexpr std::uint32_t kWarpThreads = 32;
inline constexpr std::uint32_t kLine128Threads = 8;
// Returns whether `mine` is true for all threads of the warp, all of which call it.
TUTTI_DEVICE bool AllOfWarp(bool mine) { return __all_sync(~0U, mine) != 0; }
// The warp's threads continue together.
TUTTI_DEVICE void SyncWarp() { __syncwarp(); }

#else

template <typename T>
using SystemAtomic = std::atomic_ref<T>;
template <typename T>
using GpuAtomic = std::atomic_ref<T>;
inline constexpr auto kRelaxed = std::memory_order_relaxed;
inline constexpr auto kAcquire = std::memory_order_acquire;
inline constexpr auto kRelease = std::memory_order_release;
inline constexpr auto kAcquireRelease = std::memory_order_acq_rel;

inline thread_local const HostKernelThread* this_kernel_thread = nullptr;
inline thread_local std::atomic<bool>* any_of_block = nullptr;  // false between barriers

inline std::uint32_t ThreadIndex() { return this_kernel_thread->thread; }
inline std::uint32_t ThreadCount() { return this_kernel_thread->threads; }
inline std::uint32_t BlockIndex() { return this_kernel_thread->block; }
inline void Sync() {
  if (this_kernel_thread->barrier != nullptr) this_kernel_thread->barrier->arrive_and_wait();
}
inline bool SyncOr(bool mine) {
  if (this_kernel_thread->barrier == nullptr) return mine;
  auto& any = *any_of_block;
  if (mine) any.store(true, std::memory_order_relaxed);  // the barrier orders it
  Sync();
  const bool result = any.load(std::memory_order_relaxed);
  Sync();
  if (ThreadIndex() == 0) any.store(false, std::memory_order_relaxed);
  Sync();
  return result;
}
// There are more threads than cores.
inline void Pause() { sched_yield(); }

// Each thread is on its own.
inline constexpr std::uint32_t kWarpThreads = 1;
inline constexpr std::uint32_t kLine128Threads = 1;
inline bool AllOfWarp(bool mine) { return mine; }
inline void SyncWarp() {}

#endif

// Words shared by several devices, or by a device and the host. `wide`: a party outside this GPU takes part; among the
// blocks of one GPU the narrower scope is cheaper.
template <typename T>
TUTTI_DEVICE T LoadAcquire(const T* word, bool wide) {
  auto& target = *const_cast<T*>(word);
  return wide ? SystemAtomic<T>(target).load(kAcquire) : GpuAtomic<T>(target).load(kAcquire);
}
template <typename T>
TUTTI_DEVICE void StoreRelease(T* word, T value, bool wide) {
  if (wide) {
    SystemAtomic<T>(*word).store(value, kRelease);
  } else {
    GpuAtomic<T>(*word).store(value, kRelease);
  }
}
// Relaxed accesses cost the same at any scope.
template <typename T>
TUTTI_DEVICE T LoadRelaxed(const T* word) {
  return SystemAtomic<T>(*const_cast<T*>(word)).load(kRelaxed);
}
template <typename T>
TUTTI_DEVICE void StoreRelaxed(T* word, T value) {
  SystemAtomic<T>(*word).store(value, kRelaxed);
}

// Flags that are polled, and several flags that are published together.
//
//   reader: LoadPolled until the flag is set; AcquirePolled; loads of the data that the flag announces
//   writer: stores; ReleaseStores; StoreReleased of one flag or many
//
// A relaxed polled load with one fence after it has succeeded synchronises with the flag's writer as an acquire does
// (PTX: a relaxed read followed by a fence is an acquire pattern). An acquire at every poll would discard the
// first-level cache each time, which slows all blocks of the multiprocessor. Likewise, one fence before many relaxed
// stores waits once until this thread's earlier stores are visible (and, by causality, those of other threads that a
// barrier put before it); a release per store would wait each time. A relaxed load or store is morally strong at either
// scope: `wide` is the scope of the fence.
//
// Acquire-only and release-only fences need compute capability 9.0 and CUDA 12.7. A full fence in their place would
// make a reader wait for its own stores, so elsewhere the poll itself acquires. The host does the same, because thread
// sanitizers do not support fences.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && (__CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1207)
inline constexpr bool kHalfFences = true;
TUTTI_DEVICE void AcquirePolled(bool wide) {
  if (wide) {
    asm volatile("fence.acquire.sys;" ::: "memory");
  } else {
    asm volatile("fence.acquire.gpu;" ::: "memory");
  }
}
TUTTI_DEVICE void ReleaseStores(bool wide) {
  if (wide) {
    asm volatile("fence.release.sys;" ::: "memory");
  } else {
    asm volatile("fence.release.gpu;" ::: "memory");
  }
}
#else
inline constexpr bool kHalfFences = false;
TUTTI_DEVICE void AcquirePolled(bool) {}
TUTTI_DEVICE void ReleaseStores(bool wide) {
#if defined(__CUDA_ARCH__)
  if (wide) {
    asm volatile("fence.acq_rel.sys;" ::: "memory");
  } else {
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
  }
#else
  static_cast<void>(wide);
#endif
}
#endif

template <typename T>
TUTTI_DEVICE T LoadPolled(const T* word, bool wide) {
  if constexpr (kHalfFences) {
    return LoadRelaxed(word);
  } else {
    return LoadAcquire(word, wide);
  }
}
template <typename T>
TUTTI_DEVICE void StoreReleased(T* word, T value) {
#if defined(__CUDA_ARCH__)
  StoreRelaxed(word, value);
#else
  StoreRelease(word, value, true);
#endif
}

// Adds to a counter in global memory that this GPU's blocks share; returns its previous value.
TUTTI_DEVICE std::uint64_t FetchAdd(std::uint64_t* counter, std::uint64_t value) {
#if defined(__CUDA_ARCH__)
  std::uint64_t before;
  asm volatile("atom.add.relaxed.gpu.global.u64 %0, [%1], %2;"
               : "=l"(before)
               : "l"(__cvta_generic_to_global(counter)), "l"(value)
               : "memory");
  return before;
#else
  return GpuAtomic<std::uint64_t>(*counter).fetch_add(value, kRelaxed);
#endif
}

// Two adjacent words, aligned to the pair, in one access of global memory. Neither is torn; the order in which they
// become visible is unspecified.
struct WordPair {
  std::uint64_t low, high;
};
TUTTI_DEVICE WordPair LoadPairRelaxed(const std::byte* from) {
  WordPair pair;
#if defined(__CUDA_ARCH__)
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(pair.low), "=l"(pair.high)
               : "l"(__cvta_generic_to_global(from))
               : "memory");
#else
  const auto* const words = reinterpret_cast<const std::uint64_t*>(from);
  pair.low = LoadRelaxed(words);
  pair.high = LoadRelaxed(words + 1);
#endif
  return pair;
}
TUTTI_DEVICE void StorePairRelaxed(std::byte* to, const WordPair& pair) {
#if defined(__CUDA_ARCH__)
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(to)), "l"(pair.low),
               "l"(pair.high)
               : "memory");
#else
  auto* const words = reinterpret_cast<std::uint64_t*>(to);
  StoreRelaxed(words, pair.low);
  StoreRelaxed(words + 1, pair.high);
#endif
}

// Sixteen bytes: one load or store.
struct alignas(16) Vector {
  std::uint32_t words[4];
};
inline constexpr std::size_t kVectorBytes = sizeof(Vector);

// Data is always in global memory (a GPU's, or pinned), which the compiler cannot infer. Vector loads are spelt out,
// because the compiler splits one into two loads for 64-bit elements.
template <typename T>
TUTTI_DEVICE T LoadGlobal(const std::byte* from) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<T, Vector>) {
    Vector v;
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.words[0]), "=r"(v.words[1]), "=r"(v.words[2]), "=r"(v.words[3])
                 : "l"(__cvta_generic_to_global(from))
                 : "memory");
    return v;
  }
  __builtin_assume(__isGlobal(from));
#endif
  return *reinterpret_cast<const T*>(from);
}
template <typename T>
TUTTI_DEVICE void StoreGlobal(std::byte* to, const T& value) {
#if defined(__CUDA_ARCH__)
  __builtin_assume(__isGlobal(to));
#endif
  *reinterpret_cast<T*>(to) = value;
}

}  // namespace tutti::cuda_kernels
