#include "interop/pmpi/type_map.h"

#include <algorithm>
#include <span>

#include "interop/pmpi/datatypes.h"

namespace tutti::pmpi {
namespace {

// What a type was made with. `numbers`: the integers, then the addresses, or all counts of a constructor with large
// counts, which has them in the same order.
struct Recipe {
  int combiner = MPI_COMBINER_NAMED;
  std::vector<MPI_Count> numbers;
  std::vector<MPI_Datatype> types;
};

// MPI gives a handle of its own for each type that is not predefined.
bool IsPredefined(int combiner) {
  return combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_INTEGER || combiner == MPI_COMBINER_F90_REAL ||
         combiner == MPI_COMBINER_F90_COMPLEX;
}

bool IsPredefined(const Below& mpi, MPI_Datatype handle);

// Owns the handles in a recipe.
class OwnRecipe : public Recipe {
 public:
  explicit OwnRecipe(const Below& mpi) : mpi_(mpi) {}
  ~OwnRecipe() {
    for (auto& type : types) {
      if (!IsPredefined(mpi_, type)) mpi_.Type_free(&type);
    }
  }
  OwnRecipe(const OwnRecipe&) = delete;
  OwnRecipe& operator=(const OwnRecipe&) = delete;

 private:
  const Below& mpi_;
};

#if MPI_VERSION >= 4

struct Sizes {
  MPI_Count integers = 0, addresses = 0, counts = 0, types = 0;
};
bool Envelope(const Below& mpi, MPI_Datatype handle, Sizes& sizes, int& combiner) {
  return mpi.Type_get_envelope_c != nullptr &&
         mpi.Type_get_envelope_c(handle, &sizes.integers, &sizes.addresses, &sizes.counts, &sizes.types, &combiner) ==
             MPI_SUCCESS;
}
bool Contents(const Below& mpi, MPI_Datatype handle, const Sizes& sizes, int* integers, MPI_Aint* addresses,
              MPI_Count* counts, MPI_Datatype* types) {
  return mpi.Type_get_contents_c != nullptr &&
         mpi.Type_get_contents_c(handle, sizes.integers, sizes.addresses, sizes.counts, sizes.types, integers,
                                 addresses, counts, types) == MPI_SUCCESS;
}

#else

struct Sizes {
  int integers = 0, addresses = 0, counts = 0, types = 0;
};
// An MPI that has constructors with large counts, which this library's header lacks, refuses to tell of their types.
bool Envelope(const Below& mpi, MPI_Datatype handle, Sizes& sizes, int& combiner) {
  int version = 0, subversion = 0;
  mpi.Get_version(&version, &subversion);
  constexpr int kFirstWithLargeCounts = 4;
  return version < kFirstWithLargeCounts &&
         mpi.Type_get_envelope(handle, &sizes.integers, &sizes.addresses, &sizes.types, &combiner) == MPI_SUCCESS;
}
bool Contents(const Below& mpi, MPI_Datatype handle, const Sizes& sizes, int* integers, MPI_Aint* addresses, MPI_Count*,
              MPI_Datatype* types) {
  return mpi.Type_get_contents(handle, sizes.integers, sizes.addresses, sizes.types, integers, addresses, types) ==
         MPI_SUCCESS;
}

#endif

bool IsPredefined(const Below& mpi, MPI_Datatype handle) {
  Sizes sizes;
  int combiner = MPI_COMBINER_NAMED;
  return !Envelope(mpi, handle, sizes, combiner) || IsPredefined(combiner);
}

// False: MPI does not tell.
bool Ask(const Below& mpi, MPI_Datatype handle, OwnRecipe& recipe) {
  Sizes sizes;
  if (!Envelope(mpi, handle, sizes, recipe.combiner)) return false;
  if (IsPredefined(recipe.combiner)) return true;
  std::vector<int> integers(static_cast<std::size_t>(sizes.integers));
  std::vector<MPI_Aint> addresses(static_cast<std::size_t>(sizes.addresses));
  std::vector<MPI_Count> counts(static_cast<std::size_t>(sizes.counts));
  std::vector<MPI_Datatype> types(static_cast<std::size_t>(sizes.types));
  if (!Contents(mpi, handle, sizes, integers.data(), addresses.data(), counts.data(), types.data())) return false;
  recipe.types = std::move(types);
  recipe.numbers = std::move(counts);
  if (recipe.numbers.empty()) {
    recipe.numbers.assign(integers.begin(), integers.end());
    recipe.numbers.insert(recipe.numbers.end(), addresses.begin(), addresses.end());
  }
  return true;
}

std::size_t Count(MPI_Count number) { return static_cast<std::size_t>(number); }

// Blocks of one type: `lengths` in its elements (one for all, or one each), `places` in units of `unit` bytes.
std::vector<TypePart> Indexed(std::span<const MPI_Count> lengths, std::span<const MPI_Count> places, MPI_Count unit,
                              const std::shared_ptr<const TypeMap>& type) {
  std::vector<TypePart> parts;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto length = lengths[lengths.size() == 1 ? 0 : i];
    parts.push_back({static_cast<std::ptrdiff_t>(places[i] * unit), 1, 0, Count(length), type});
  }
  return parts;
}

// The parts of a type that is made of the types `made_of`. Empty: of a kind that is not read. The numbers of each kind are
// those of its constructor, in its order (MPI 4.1, 5.1.13).
std::vector<TypePart> PartsOf(const Recipe& recipe, const std::vector<std::shared_ptr<const TypeMap>>& made_of) {
  const std::span<const MPI_Count> numbers(recipe.numbers);
  const auto& first = made_of.front();
  const auto extent = static_cast<MPI_Count>(first->extent);
  const auto vector = [&](MPI_Count unit) -> std::vector<TypePart> {
    return {{0, Count(numbers[0]), static_cast<std::ptrdiff_t>(numbers[2] * unit), Count(numbers[1]), first}};
  };
  // count, lengths, places
  const auto indexed = [&](MPI_Count unit) {
    const auto count = Count(numbers[0]);
    return Indexed(numbers.subspan(1, count), numbers.subspan(1 + count, count), unit, first);
  };
  // count, length, places
  const auto equal_blocks = [&](MPI_Count unit) {
    return Indexed(numbers.subspan(1, 1), numbers.subspan(2, Count(numbers[0])), unit, first);
  };
  switch (recipe.combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED: return {{0, 1, 0, 1, first}};
    case MPI_COMBINER_CONTIGUOUS: return {{0, 1, 0, Count(numbers[0]), first}};
    case MPI_COMBINER_VECTOR: return vector(extent);
    case MPI_COMBINER_HVECTOR: return vector(1);
    case MPI_COMBINER_INDEXED: return indexed(extent);
    case MPI_COMBINER_HINDEXED: return indexed(1);
    case MPI_COMBINER_INDEXED_BLOCK: return equal_blocks(extent);
    case MPI_COMBINER_HINDEXED_BLOCK: return equal_blocks(1);
    case MPI_COMBINER_STRUCT: {
      const auto count = Count(numbers[0]);
      auto parts = Indexed(numbers.subspan(1, count), numbers.subspan(1 + count, count), 1, first);
      for (std::size_t i = 0; i < count; ++i) parts[i].type = made_of[i];
      return parts;
    }
    default: return {};
  }
}

// Whether the parts are one row of bytes from the element's address on.
bool InARow(const std::vector<TypePart>& parts) {
  std::ptrdiff_t end = 0;
  return std::ranges::all_of(parts, [&](const TypePart& part) {
    const auto block = static_cast<std::ptrdiff_t>(part.count * part.type->bytes);
    if (block == 0 || part.blocks == 0) return true;
    const bool follows = part.type->dense && part.at == end && (part.blocks == 1 || part.stride == block);
    end += static_cast<std::ptrdiff_t>(part.blocks) * block;
    return follows;
  });
}

}  // namespace

std::shared_ptr<const TypeMap> TypeMapOf(const Below& mpi, MPI_Datatype handle) {
  const auto described = Describe(mpi, handle);
  if (!described) return nullptr;
  auto map = std::make_shared<TypeMap>();
  map->bytes = described->bytes;
  map->extent = described->extent;
  map->dense = described->bytes == 0;
  OwnRecipe recipe(mpi);
  if (map->dense) return map;
  if (!Ask(mpi, handle, recipe)) return nullptr;
  if (IsPredefined(recipe.combiner)) {
    map->dense = described->compact;
    return map->dense ? map : nullptr;
  }
  std::vector<std::shared_ptr<const TypeMap>> made_of;
  for (const auto type : recipe.types) {
    const bool again = !made_of.empty() && type == recipe.types[made_of.size() - 1];
    made_of.push_back(again ? made_of.back() : TypeMapOf(mpi, type));
    if (made_of.back() == nullptr) return nullptr;
  }
  if (made_of.empty()) return nullptr;
  map->parts = PartsOf(recipe, made_of);
  if (map->parts.empty()) return nullptr;
  map->dense = described->compact && InARow(map->parts);
  if (map->dense) map->parts.clear();
  return map;
}

}  // namespace tutti::pmpi
