#include "interop/torch/csrc/ops/tensors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "interop/torch/csrc/devices.h"

namespace tutti::pytorch {
namespace {

std::byte* Begin(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

std::byte* End(const at::Tensor& tensor) { return Begin(tensor) + tensor.nbytes(); }

// The memory at `place`, as a tensor of the shape and type of `like`.
at::Tensor At(std::byte* place, const at::Tensor& like) {
  return at::for_blob(place, like.sizes())
      .options(like.options().requires_grad(false))
      .target_device(like.device())
      .make_tensor();
}

void CheckContiguous(const char* call, const std::string& what, const at::Tensor& tensor) {
  if (tensor.is_contiguous()) return;
  const auto contiguous = c10::TensorType::contiguousStridesOf(tensor.sizes());
  Refuse(call, ": Tensors must be contiguous, but ", what, " of shape ", tensor.sizes(), " has strides ",
         tensor.strides(), " instead of ", at::IntArrayRef(contiguous), "; pass .contiguous()");
}

}  // namespace

void CheckPackedTensor(const char* call, const std::string& what, const at::Tensor& tensor) {
  if (!tensor.defined()) Refuse(call, ": ", what, " is undefined");
  if (!tensor.device().is_cpu() && NativeStreamOf(tensor.device().type()) == nullptr) {
    Refuse(call, ": ", what, " is on device ", tensor.device(), ", but backend tutti moves tensors on ",
           NamesOfTakenDevices(), "; pass a copy: .cpu()");
  }
  if (tensor.layout() != at::kStrided) {
    Refuse(call, ": ", what, " has layout ", tensor.layout(), ", but must be dense (Strided); pass .to_dense()");
  }
}

void CheckTensor(const char* call, const std::string& what, const at::Tensor& tensor) {
  CheckPackedTensor(call, what, tensor);
  CheckContiguous(call, what, tensor);
}

void CheckOnHost(const char* call, const at::Tensor& tensor, const char* why) {
  if (!tensor.device().is_cpu()) {
    Refuse(call, ": tensor is on device ", tensor.device(), ", but ", why,
           " takes tensors on cpu; pass a copy: .cpu()");
  }
}

void CheckSameDevice(const char* call, const std::string& a_name, const at::Tensor& a, const std::string& b_name,
                     const at::Tensor& b) {
  if (a.device() != b.device()) {
    Refuse(call, ": ", a_name, " is on device ", a.device(), ", but ", b_name, " on device ", b.device());
  }
}

void CheckOneDevice(const char* call, const Tensors& tensors) {
  for (const auto& tensor : tensors) CheckSameDevice(call, "a tensor", tensor, "the first", tensors[0]);
}

void CheckCalls(const char* call, const Tensors& outputs, const Tensors& inputs) {
  CheckCount(call, "the number of inputs", static_cast<std::int64_t>(inputs.size()), "that of outputs",
             static_cast<std::int64_t>(outputs.size()));
  if (inputs.empty()) Refuse(call, ": the list of inputs is empty");
  CheckOneDevice(call, inputs);
}

void CheckAlike(const char* call, const std::string& a_name, const at::Tensor& a, const std::string& b_name,
                const at::Tensor& b) {
  CheckSameDevice(call, a_name, a, b_name, b);
  if (a.scalar_type() != b.scalar_type()) {
    Refuse(call, ": ", a_name, " is of type ", a.scalar_type(), ", but ", b_name, " of type ", b.scalar_type());
  }
}

void CheckPackedTensors(const char* call, const std::string& what, const Tensors& tensors, const at::Tensor& like) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto name = what + "[" + std::to_string(i) + "]";
    CheckPackedTensor(call, name, tensors[i]);
    CheckAlike(call, name, tensors[i], "the other tensor", like);
  }
}

void CheckTensors(const char* call, const std::string& what, const Tensors& tensors, const at::Tensor& like) {
  CheckPackedTensors(call, what, tensors, like);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    CheckContiguous(call, what + "[" + std::to_string(i) + "]", tensors[i]);
  }
}

const at::Tensor& CheckSingle(const char* call, const std::string& what, const Tensors& tensors) {
  const auto& tensor = CheckSinglePacked(call, what, tensors);
  CheckTensor(call, what, tensor);
  return tensor;
}

const at::Tensor& CheckSinglePacked(const char* call, const std::string& what, const Tensors& tensors) {
  if (tensors.size() != 1) {
    Refuse(call, ": ", tensors.size(), " tensors were given as ", what,
           ", but a process passes one per call; make a call for each of them");
  }
  CheckPackedTensor(call, what, tensors[0]);
  return tensors[0];
}

void CheckCount(const char* call, const std::string& quantity, std::int64_t is, const std::string& must_be_name,
                std::int64_t must_be) {
  if (is != must_be) Refuse(call, ": ", quantity, " is ", is, ", but ", must_be_name, " is ", must_be);
}

void CheckRank(const char* call, const std::string& what, std::int64_t rank, int ranks) {
  if (rank < 0 || rank >= ranks) {
    Refuse(call, ": ", what, " is ", rank, ", but the group has ranks 0 to ", ranks - 1);
  }
}

bool AllOfOneSize(const Tensors& tensors) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [&](const at::Tensor& tensor) { return tensor.numel() == tensors[0].numel(); });
}

std::size_t Count(const at::Tensor& tensor) {
  return static_cast<std::size_t>(tensor.numel()) * ToMove(tensor.scalar_type()).each;
}

void* Scratch::AtLeast(std::size_t bytes) {
  if (!memory_.defined() || memory_.nbytes() < bytes) {
    memory_ = at::Tensor();  // frees the old memory before allocating
    memory_ = at::empty({static_cast<std::int64_t>(bytes)}, at::TensorOptions().dtype(at::kByte).device(device_));
  }
  return memory_.data_ptr();
}

Pieces::Pieces(Tensors tensors) : tensors_(std::move(tensors)) {
  std::byte* end = nullptr;
  for (const auto& tensor : tensors_) {
    counts_.push_back(Count(tensor));
    if (tensor.numel() == 0) continue;
    begin_ = begin_ == nullptr ? Begin(tensor) : std::min(begin_, Begin(tensor));
    end = std::max(end, End(tensor));
  }
  bytes_ = static_cast<std::size_t>(end - begin_);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const auto& tensor = tensors_[i];
    const auto size = counts_[i] == 0 ? 1 : tensor.nbytes() / counts_[i];  // bytes of one of the library's elements
    const auto distance = tensor.numel() == 0 ? 0 : static_cast<std::size_t>(Begin(tensor) - begin_);
    whole_elements_ = whole_elements_ && distance % size == 0;
    places_.push_back(distance / size);
  }
}

bool Pieces::IsOrderly() const {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (counts_[i] != 0) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return places_[a] < places_[b]; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (places_[order[i - 1]] + counts_[order[i - 1]] > places_[order[i]]) return false;
  }
  return whole_elements_;
}

void Pieces::Pack(Scratch& scratch, bool always) {
  bool packed = whole_elements_ && !always;
  std::size_t place = 0;
  bytes_ = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    packed = packed && (counts_[i] == 0 || places_[i] == place);
    places_[i] = place;
    place += counts_[i];
    bytes_ += tensors_[i].nbytes();
  }
  if (packed || bytes_ == 0) return;
  begin_ = static_cast<std::byte*>(scratch.AtLeast(bytes_));
  copied_ = true;
}

bool Pieces::Overlap(const Pieces& other) const {
  return bytes_ != 0 && other.bytes_ != 0 && begin_ < other.begin_ + other.bytes_ && other.begin_ < begin_ + bytes_;
}

void Pieces::Load() const {
  if (!copied_) return;
  auto* to = begin_;
  for (const auto& tensor : tensors_) {
    if (tensor.numel() == 0) continue;
    if (tensor.device().is_cpu()) {
      std::memcpy(to, tensor.data_ptr(), tensor.nbytes());
    } else {
      At(to, tensor).copy_(tensor, true);
    }
    to += tensor.nbytes();
  }
}

void Pieces::Store() const {
  if (!copied_) return;
  auto* from = begin_;
  for (const auto& tensor : tensors_) {
    if (tensor.numel() == 0) continue;
    if (tensor.device().is_cpu()) {
      std::memcpy(tensor.data_ptr(), from, tensor.nbytes());
    } else {
      tensor.copy_(At(from, tensor), true);
    }
    from += tensor.nbytes();
  }
}

}  // namespace tutti::pytorch
