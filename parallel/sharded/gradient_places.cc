#include "parallel/sharded/gradient_places.h"

#include <algorithm>

namespace tutti::parallel {

std::size_t GradientPlaces::Assign(const UnitLayout& unit) {
  const std::size_t place = assigned_++ % places_.size();
  bytes_[place] = std::max(bytes_[place], unit.count() * size_of(unit.dtype()));
  return place;
}

void GradientPlaces::Make() {
  if (places_.front().tensor().data != nullptr) return;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    places_[i] = memory_.make(MemoryKind::gradients, compute_, {bytes_[i]}, tuttiUint8);
  }
}

Tensor GradientPlaces::Of(const UnitLayout& unit, std::size_t place) const {
  return {places_[place].tensor().data, {unit.count()}, unit.dtype()};
}

}  // namespace tutti::parallel
