// What a call's tensors must be, checked before anything is sent; and memory for lists of them.
//
// Refusals name the call, the tensor, the quantity and both values (ValueError in Python). What only the ranks together
// can know - that their counts, types or operators differ - the library finds, and names both ranks.
//
// Thread-safety: functions may be called from any thread; a Block belongs to one at a time.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "interop/torch/types.h"

namespace tutti::pytorch {

using Tensors = std::vector<at::Tensor>;

// Dense, contiguous, in host memory. `what` names it: "output", "input_list[2]".
void CheckTensor(const char* call, const std::string& what, const at::Tensor& tensor);
// That, of each, and the same type as `like`.
void CheckTensors(const char* call, const std::string& what, const Tensors& tensors, const at::Tensor& like);
// c10d's calls take lists of tensors, of which only the first means anything to one process.
const at::Tensor& CheckSingle(const char* call, const std::string& what, const Tensors& tensors);
void CheckSameType(const char* call, const std::string& a_name, const at::Tensor& a, const std::string& b_name,
                   const at::Tensor& b);
void CheckCount(const char* call, const std::string& quantity, std::int64_t is, const std::string& must_be_name,
                std::int64_t must_be);
void CheckRank(const char* call, const std::string& what, std::int64_t rank, int ranks);

bool AllOfOneSize(const Tensors& tensors);
// In the library's elements.
std::size_t Count(const at::Tensor& tensor);

// The tensors of a list as one piece of memory, one behind the other: their own if they lie so, else a copy.
// REQUIRES: CheckTensors.
class Block {
 public:
  explicit Block(const Tensors& tensors);
  void* data() const { return own_ ? copy_.data_ptr() : tensors_[0].data_ptr(); }
  void Load();   // tensors to memory
  void Store();  // memory to tensors

 private:
  const Tensors tensors_;
  bool own_;
  at::Tensor copy_;
};

}  // namespace tutti::pytorch
