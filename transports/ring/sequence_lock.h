// A sequence lock: one writer replaces several words, and a reader finds all words of one version or nothing. Nobody waits,
// and the writer may die between two words.
//
// A version's number is 0 while its words are being written. Each word is released and acquired, so that a reader that
// sees one of the new words finds the old number gone when it looks at it again. (Fences would do the same, but
// ThreadSanitizer does not support them.) tests/model explores it (SequenceLockModel).
//
// Thread-safety: one writer at a time; any thread and process may read.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>

namespace tutti::ring {
namespace internal {

template <typename T>
void Store(std::atomic<T>& word, T value) {
  word.store(value, std::memory_order_release);
}
template <typename T, std::size_t n>
void Store(std::array<std::atomic<T>, n>& words, const std::array<T, n>& values) {
  for (std::size_t i = 0; i < n; ++i) Store(words[i], values[i]);
}

template <typename T>
T Load(const std::atomic<T>& word) {
  return word.load(std::memory_order_acquire);
}
template <typename T, std::size_t n>
std::array<T, n> Load(const std::array<std::atomic<T>, n>& words) {
  std::array<T, n> values;
  for (std::size_t i = 0; i < n; ++i) values[i] = Load(words[i]);
  return values;
}

}  // namespace internal

// Writes version `next` of `words`: atomics and arrays of them, each with its value. REQUIRES: next is not 0.
template <typename... Words, typename... Values>
void WriteWhole(std::atomic<std::uint64_t>& number, std::uint64_t next, const std::tuple<Words&...>& words,
                const Values&... values) {
  number.store(0, std::memory_order_relaxed);
  std::apply([&](Words&... word) { (internal::Store(word, values), ...); }, words);
  number.store(next, std::memory_order_release);
}

// The words of version `wanted`; nothing if they are not there, or are being replaced. 0 is no version.
template <typename... Words>
auto ReadWhole(const std::atomic<std::uint64_t>& number, std::uint64_t wanted, const std::tuple<Words&...>& words) {
  using Values = std::tuple<decltype(internal::Load(std::declval<Words&>()))...>;
  if (wanted == 0 || internal::Load(number) != wanted) return std::optional<Values>();
  // In braces the words are loaded in their order.
  const auto values = std::apply([](Words&... word) { return Values{internal::Load(word)...}; }, words);
  return internal::Load(number) == wanted ? std::optional(values) : std::nullopt;
}

}  // namespace tutti::ring
