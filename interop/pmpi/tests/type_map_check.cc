// A program of MPI, on one rank: what the layer reads of a datatype's construction is what MPI_Pack does.
#include "interop/pmpi/datatypes.h"
#include "interop/pmpi/tests/checks.h"
#include "interop/pmpi/type_map.h"

namespace tutti::pmpi_test {
namespace {

Shape Made(const char* name, MPI_Datatype type) {
  MPI_Type_commit(&type);
  return {name, type, 0};
}

// One of each constructor that MakeShapes() lacks, and nested ones.
std::vector<Shape> FurtherShapes() {
  std::vector<Shape> shapes;
  MPI_Datatype made{}, part{};
  MPI_Type_create_hvector(3, 2, 20, MPI_INT, &made);
  shapes.push_back(Made("hvector", made));
  MPI_Type_create_hvector(3, 2, 8, MPI_INT, &made);
  shapes.push_back(Made("hvector in a row", made));
  const int lengths[] = {2, 0, 3};
  const MPI_Aint offsets[] = {24, 4, 0};
  MPI_Type_create_hindexed(3, lengths, offsets, MPI_INT, &made);
  shapes.push_back(Made("hindexed", made));
  MPI_Type_create_hindexed_block(3, 1, offsets, MPI_INT, &made);
  shapes.push_back(Made("hindexed_block", made));
  MPI_Type_dup(made, &part);
  MPI_Type_vector(2, 1, 2, part, &made);
  MPI_Type_free(&part);
  shapes.push_back(Made("a vector of duplicates", made));
  const int two[] = {1, 2};
  const MPI_Aint apart[] = {0, 8}, adjacent[] = {0, 4};
  const MPI_Datatype unlike[] = {MPI_INT, MPI_DOUBLE}, alike[] = {MPI_FLOAT, MPI_INT};
  MPI_Type_create_struct(2, two, apart, unlike, &made);
  shapes.push_back(Made("a struct", made));
  MPI_Type_create_struct(2, two, adjacent, alike, &made);
  shapes.push_back(Made("a struct in a row", made));
  MPI_Type_contiguous(0, MPI_INT, &made);
  shapes.push_back(Made("nothing", made));
  MPI_Type_create_resized(MPI_INT, 0, 12, &part);
  MPI_Type_contiguous(4, part, &made);
  MPI_Type_free(&part);
  shapes.push_back(Made("resized integers", made));
  return shapes;
}

void Check(const pmpi::Below& mpi, const Shape& shape) {
  constexpr std::size_t kMost = 4096;
  constexpr std::size_t kElements = 3;
  const auto map = pmpi::TypeMapOf(mpi, shape.type);
  Require(map != nullptr, std::string("no map of ") + shape.name);
  const auto* const known = pmpi::DatatypeOf(mpi, shape.type);
  Require(map->bytes == known->bytes && map->dense == known->dense, std::string("another map of ") + shape.name);
  std::vector<char> memory(kMost), packed(kMost), read(kMost);
  for (std::size_t i = 0; i < kMost; ++i) memory[i] = static_cast<char>(i * 131 >> 3);
  int position = 0;
  MPI_Pack(memory.data(), kElements, shape.type, packed.data(), kMost, &position, MPI_COMM_SELF);
  std::size_t at = 0;
  ForEachRow(*map, kElements, 0, [&](std::ptrdiff_t from, std::size_t bytes) {
    std::memcpy(read.data() + at, memory.data() + from, bytes);
    at += bytes;
  });
  Require(at == static_cast<std::size_t>(position) && read == packed, std::string("the data of ") + shape.name);
}

}  // namespace
}  // namespace tutti::pmpi_test

int main(int argc, char** argv) {
  using namespace tutti::pmpi_test;  // NOLINT
  MPI_Init(&argc, &argv);
  const auto& mpi = tutti::pmpi::TheBelow();
  auto shapes = MakeShapes();
  for (const auto& further : FurtherShapes()) shapes.push_back(further);
  for (auto& shape : shapes) Check(mpi, shape);
  // MPI does not tell how these are built, or they are of a kind that is not read.
  Require(tutti::pmpi::TypeMapOf(mpi, MPI_DOUBLE_INT) == nullptr, "a map of MPI_DOUBLE_INT");
  for (auto& shape : shapes) MPI_Type_free(&shape.type);
  std::printf("passed: %zu types\n", shapes.size());
  return MPI_Finalize();
}
