// The training data: bytes of text files, as sequences of a fixed length.
//
// Thread-safety: const functions from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace train_lm {

class Text {
 public:
  static constexpr std::size_t kVocabulary = 256;  // bytes

  // Reads all files of `folder`, in the order of their names; linked files once. Throws std::runtime_error naming the
  // folder if there are fewer than `sequence` + 1 bytes.
  Text(const std::string& folder, std::size_t sequence);

  // Sample `sample` of step `step`, the same for every caller: `sequence` ids and, shifted by one, their targets. Id i
  // goes to ids[i * stride], so that samples can be interleaved.
  void sample(std::size_t step, std::size_t sample, std::int32_t* ids, std::int32_t* targets, std::size_t stride) const;

 private:
  std::string text_;
  std::size_t sequence_;
};

}  // namespace train_lm
