// HostKernels of the kernels with which nccl-tests create and check their data. Names and arguments are theirs; the
// data is ours.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "testing/fake_gpu/runtime/host_kernel.h"
#include "testing/fake_gpu/runtime/verifiable.h"

namespace tutti::fake_gpu {
namespace {

using Work = std::function<void()>;

template <class T>
T Argument(void** arguments, int number) {
  return *static_cast<const T*>(arguments[number]);
}

// (elements, count, operator, ranks, rank, seed, first place)
template <class T>
HostKernel PrepareInput(Reduction reduction) {
  return [reduction](void** arguments) -> Work {
    auto* elements = Argument<T*>(arguments, 0);
    const auto count = Argument<std::int64_t>(arguments, 1);
    const auto rank = Argument<int>(arguments, 4);
    const Series series{reduction, Argument<int>(arguments, 3), Argument<std::uint64_t>(arguments, 5)};
    const auto first = Argument<std::int64_t>(arguments, 6);
    return [=] {
      for (std::int64_t i = 0; i < count; ++i) elements[i] = Input<T>(series, rank, first + i);
    };
  };
}

// (elements, count, operator, ranks, seed, first place)
template <class T>
HostKernel PrepareExpected(Reduction reduction) {
  return [reduction](void** arguments) -> Work {
    auto* elements = Argument<T*>(arguments, 0);
    const auto count = Argument<std::int64_t>(arguments, 1);
    const Series series{reduction, Argument<int>(arguments, 3), Argument<std::uint64_t>(arguments, 4)};
    const auto first = Argument<std::int64_t>(arguments, 5);
    return [=] {
      for (std::int64_t i = 0; i < count; ++i) elements[i] = Expected<T>(series, first + i);
    };
  };
}

// TUTTI_FAKE_GPU_CORRUPT=1: true once in the process.
bool TakeCorruption() {
  static const char* const wanted = std::getenv("TUTTI_FAKE_GPU_CORRUPT");
  static std::atomic<bool> pending{wanted != nullptr && std::strcmp(wanted, "0") != 0};
  return pending.exchange(false);
}

// Makes one bit of one buffer wrong, so that the checker must report it. Flips the highest bit, because a lower one may
// be within the tolerance.
template <class T>
void CorruptOnce(T* results, std::int64_t count) {
  if (count > 0 && TakeCorruption()) results[count / 2] ^= static_cast<T>(T{1} << (8 * sizeof(T) - 1));
}

// (results, expected, count, tolerance, sum of wrong ones)
template <class T>
HostKernel Verify() {
  return [](void** arguments) -> Work {
    auto* results = Argument<T*>(arguments, 0);
    const auto* expected = Argument<const T*>(arguments, 1);
    const auto count = Argument<std::int64_t>(arguments, 2);
    const auto tolerance = Argument<unsigned>(arguments, 3);
    auto* wrong = Argument<std::int64_t*>(arguments, 4);
    return [=] {
      CorruptOnce(results, count);
      *wrong += CountWrong(results, expected, count, tolerance);
    };
  };
}

// Both kinds of data for one type.
struct Preparation {
  HostKernel (*input)(Reduction);
  HostKernel (*expected)(Reduction);
};

template <class T>
constexpr Preparation Prepares() {
  return {PrepareInput<T>, PrepareExpected<T>};
}

const std::map<std::string, Preparation>& Preparations() {
  static const std::map<std::string, Preparation> preparations = {
      {"signed char", Prepares<std::int8_t>()},
      {"unsigned char", Prepares<std::uint8_t>()},
      {"int", Prepares<std::int32_t>()},
      {"unsigned int", Prepares<std::uint32_t>()},
      {"long", Prepares<std::int64_t>()},
      {"unsigned long", Prepares<std::uint64_t>()},
      {"__half", Prepares<__half>()},
      {"__nv_bfloat16", Prepares<__nv_bfloat16>()},
      {"__nv_fp8_e4m3", Prepares<__nv_fp8_e4m3>()},
      {"__nv_fp8_e5m2", Prepares<__nv_fp8_e5m2>()},
      {"float", Prepares<float>()},
      {"double", Prepares<double>()},
  };
  return preparations;
}

const std::map<std::string, Reduction>& Reductions() {
  static const std::map<std::string, Reduction> reductions = {
      {"ReduceNil", Reduction::kNone},
      {"ReduceSum", Reduction::kSum},
      {"ReduceMin", Reduction::kMin},
      {"ReduceMax", Reduction::kMax},
      {"ReduceProd", Reduction::kProduct},
      {"ReduceAvg", Reduction::kAverage},
      {"ReducePreMulSum", Reduction::kPreMulSum},
  };
  return reductions;
}

const std::map<std::string, HostKernel>& Verifiers() {
  static const std::map<std::string, HostKernel> verifiers = {
      {"unsigned char", Verify<std::uint8_t>()},
      {"unsigned short", Verify<std::uint16_t>()},
      {"unsigned int", Verify<std::uint32_t>()},
      {"unsigned long", Verify<std::uint64_t>()},
  };
  return verifiers;
}

}  // namespace

HostKernel FindHostKernel(const KernelName& name) {
  if (name.function == "verifyPrepared" && name.arguments.size() == 1) {
    const auto found = Verifiers().find(name.arguments[0]);
    return found == Verifiers().end() ? nullptr : found->second;
  }
  const bool input = name.function == "prepareInput2";
  if ((!input && name.function != "prepareExpected2") || name.arguments.size() != 2) return nullptr;
  const auto type = Preparations().find(name.arguments[0]);
  const auto reduction = Reductions().find(name.arguments[1]);
  if (type == Preparations().end() || reduction == Reductions().end()) return nullptr;
  return (input ? type->second.input : type->second.expected)(reduction->second);
}

}  // namespace tutti::fake_gpu
