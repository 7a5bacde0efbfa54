// Shared by the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tutti/parallel/error.h"
#include "tutti/parallel/tensor.h"

namespace tutti::parallel {

// Whether `call` throws an Error of that code whose message contains each of `words`.
inline ::testing::AssertionResult Throws(const std::function<void()>& call, tuttiResult_t code,
                                         const std::vector<std::string>& words) {
  try {
    call();
  } catch (const Error& error) {
    if (error.code() != code) {
      return ::testing::AssertionFailure() << "code " << error.code() << " (" << error.what() << "), not " << code;
    }
    for (const auto& word : words) {
      if (std::string(error.what()).find(word) == std::string::npos) {
        return ::testing::AssertionFailure() << "no \"" << word << "\" in: " << error.what();
      }
    }
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "nothing was thrown";
}

// Values from -1 to 1; equal seeds give equal values everywhere.
inline std::vector<float> RandomFloats(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  std::ranges::generate(values, [&] { return static_cast<float>(random() % 2001) / 1000 - 1; });
  return values;
}

// The values of a tensor in host memory.
inline std::vector<float> FloatsOf(const Tensor& tensor) { return {tensor.floats(), tensor.floats() + tensor.count()}; }

}  // namespace tutti::parallel
