#include "tensors.h"

#include <nanobind/ndarray.h>

#include <string>
#include <utility>

#include "../failure.h"

namespace nb = nanobind;

namespace tutti_python {
namespace {

using tutti::parallel::Buffer;
using tutti::parallel::Tensor;

template <typename Framework>
nb::object Made(const Tensor& tensor, const Place& place, nb::handle owner, const std::int64_t* strides) {
  const int device = place.device < 0 ? nb::device::cpu::value : nb::device::cuda::value;
  // A place for the pointer of a tensor without elements, which some frameworks look at.
  static char nothing;
  void* const data = tensor.data == nullptr ? &nothing : tensor.data;
  const Element element = ElementOf(tensor.dtype);
  const nb::dlpack::dtype type{DlpackCodeOf(element), static_cast<std::uint8_t>(element.bytes * 8), 1};
  const nb::ndarray<Framework> array(data, tensor.shape.size(), tensor.shape.data(), owner, strides, type, device,
                                     place.device < 0 ? 0 : place.device);
  return nb::cast(array, nb::rv_policy::reference);
}

}  // namespace

Lent::Lent(nb::handle array, const char* what, Access access) {
  if (array.is_none()) return;
  array_.Take(array, what, access);
  const Carrier carrier = MovedAs(array_.element());
  if (carrier.per_element != 1 || array_.element().kind == Kind::kBool) {
    Fail(tuttiInvalidArgument, std::string(what) + " has elements of type " + NameOf(array_.element()) +
                                   ", which the parallel layer does not take");
  }
  tutti::parallel::Shape shape;
  for (const auto extent : array_.shape()) shape.push_back(static_cast<std::size_t>(extent));
  tensor_ = Tensor(array_.data(), std::move(shape), carrier.type);
}

nb::object ArrayOver(const Tensor& tensor, const Place& place, nb::handle owner, const std::int64_t* strides) {
  if (tensor.data == nullptr && (tensor.shape.empty() || tensor.count() > 0)) return nb::none();
  return place.framework == Framework::pytorch ? Made<nb::pytorch>(tensor, place, owner, strides)
                                               : Made<nb::numpy>(tensor, place, owner, strides);
}

nb::object ArrayOf(Buffer buffer, const Place& place, nb::object keep) {
  struct Owned {
    nb::object keep;  // destroyed last
    Buffer buffer;
  };
  auto owned = std::make_unique<Owned>(Owned{std::move(keep), std::move(buffer)});
  const Tensor tensor = owned->buffer.tensor();
  const nb::capsule owner(owned.get(), [](void* memory) noexcept { delete static_cast<Owned*>(memory); });
  owned.release();
  return ArrayOver(tensor, place, owner);
}

}  // namespace tutti_python
