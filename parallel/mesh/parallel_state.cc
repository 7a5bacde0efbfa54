#include "tutti/parallel/parallel_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>

#include "tutti/parallel/error.h"

namespace tutti::parallel {
namespace {

std::vector<std::string> NamesIn(const std::string& order) {
  std::vector<std::string> names;
  for (const auto part : std::views::split(order, '-')) names.emplace_back(part.begin(), part.end());
  return names;
}

// The layout with the `sizes` of its axes; the order's other names are another layout's. "cp" may be given as its two
// parts.
MeshLayout LayoutOf(const std::string& order, const std::map<std::string, int>& sizes) {
  std::vector<MeshAxis> axes;
  const auto add = [&](const std::string& name) {
    if (const auto size = sizes.find(name); size != sizes.end()) axes.push_back({name, size->second});
  };
  for (const auto& name : NamesIn(order)) {
    add(name);
    if (name != "cp") continue;
    add("ulysses");
    add("ring");
  }
  for (const auto& [name, size] : sizes) {
    if (std::ranges::find(axes, name, &MeshAxis::name) != axes.end()) continue;
    if (size > 1) {
      throw Error(tuttiInvalidArgument,
                  fmt::format("{} has size {}, but the order \"{}\" does not contain it", name, size, order));
    }
    axes.push_back({name, size});
  }
  std::ranges::reverse(axes);  // the order begins with the fastest
  return MeshLayout(std::move(axes));
}

void CheckOrder(const std::string& order) {
  for (const auto& name : NamesIn(order)) {
    if (name != "tp" && name != "cp" && name != "ep" && name != "dp" && name != "pp") {
      throw Error(tuttiInvalidArgument,
                  fmt::format("the order \"{}\" contains \"{}\"; known are tp, cp, ep, dp and pp", order, name));
    }
  }
}

// The part of the world that is left for data parallelism.
int DataParallelSize(const char* what, int world_size, const std::vector<std::pair<const char*, int>>& sizes) {
  int product = 1;
  std::string text;
  for (const auto& [name, size] : sizes) {
    if (size < 1) throw Error(tuttiInvalidArgument, fmt::format("{} is {}; at least 1 is needed", name, size));
    product *= size;
    text += fmt::format("{}{} ({})", text.empty() ? "" : " x ", name, size);
  }
  if (world_size % product != 0) {
    throw Error(tuttiInvalidArgument,
                fmt::format("the world's size ({}) is not divisible by {}'s {} = {}", world_size, what, text, product));
  }
  return world_size / product;
}

}  // namespace

ModelParallelLayouts layouts_of(const ModelParallelSizes& sizes, int world_size) {
  CheckOrder(sizes.order);
  const int tp = sizes.tensor_model_parallel_size, pp = sizes.pipeline_model_parallel_size;
  const int cp = sizes.context_parallel_size, ep = sizes.expert_model_parallel_size;
  const int etp = sizes.expert_tensor_parallel_size != 0 ? sizes.expert_tensor_parallel_size : tp;
  const int dp = DataParallelSize(
      "the dense layers", world_size,
      {{"tensor_model_parallel_size", tp}, {"context_parallel_size", cp}, {"pipeline_model_parallel_size", pp}});
  if (sizes.data_parallel_size != 0 && sizes.data_parallel_size != dp) {
    throw Error(
        tuttiInvalidArgument,
        fmt::format("tensor_model_parallel_size ({}) x context_parallel_size ({}) x pipeline_model_parallel_size "
                    "({}) x data_parallel_size ({}) is {}, but the world's size is {}",
                    tp, cp, pp, sizes.data_parallel_size, tp * cp * pp * sizes.data_parallel_size, world_size));
  }
  const int edp = DataParallelSize(
      "the experts", world_size,
      {{"expert_tensor_parallel_size", etp}, {"expert_model_parallel_size", ep}, {"pipeline_model_parallel_size", pp}});
  const int ulysses = sizes.ulysses_size;
  if (ulysses < 1 || cp % ulysses != 0) {
    throw Error(tuttiInvalidArgument,
                fmt::format("context_parallel_size ({}) is not divisible by ulysses_size ({})", cp, ulysses));
  }
  ModelParallelLayouts layouts{
      LayoutOf(sizes.order, {{"tp", tp}, {"cp", cp}, {"dp", dp}, {"pp", pp}}),
      LayoutOf(sizes.order, {{"tp", etp}, {"ep", ep}, {"dp", edp}, {"pp", pp}}),
      LayoutOf(sizes.order, {{"tp", tp}, {"ulysses", ulysses}, {"ring", cp / ulysses}, {"dp", dp}, {"pp", pp}})};
  if (layouts.dense.groups({"pp"}) != layouts.expert.groups({"pp"})) {
    throw Error(tuttiInvalidArgument,
                fmt::format("with the order \"{}\" the experts' pipelines are on other ranks than the dense layers': "
                            "rank 0's on ranks {} and {}; put pp last",
                            sizes.order, fmt::join(layouts.expert.group_of(0, {"pp"}), ", "),
                            fmt::join(layouts.dense.group_of(0, {"pp"}), ", ")));
  }
  return layouts;
}

ParallelState::ParallelState(tuttiComm_t world, const ModelParallelSizes& sizes, const tuttiConfig_t& config)
    : world_(world),
      layouts_(layouts_of(sizes, world_.size())),
      dense_(world_, layouts_.dense, config),
      expert_(world_, layouts_.expert, config, "expert "),
      context_(world_, layouts_.context, config),
      config_(config) {}

ProcessGroup& ParallelState::get_embedding_group() {
  if (!embedding_) {
    const auto& stages = dense_.group("pp").ranks();
    auto ends = stages.size() == 1 ? stages : std::vector{stages.front(), stages.back()};
    embedding_ = std::make_unique<ProcessGroup>(world_, "embedding", std::move(ends), config_);
  }
  return *embedding_;
}

void ParallelState::close() {
  if (embedding_) embedding_->close();
  for (auto* const mesh : {&context_, &expert_, &dense_}) mesh->close();
  world_.close();
}

std::map<std::string, std::uint64_t> ParallelState::bytes_sent() const {
  auto bytes = dense_.bytes_sent();
  bytes.merge(expert_.bytes_sent());
  bytes.merge(context_.bytes_sent());
  if (embedding_) bytes["embedding"] = embedding_->bytes_sent();
  bytes["world"] = world_.bytes_sent();
  return bytes;
}

std::unique_ptr<ParallelState> initialize_model_parallel(tuttiComm_t world, const ModelParallelSizes& sizes,
                                                         const tuttiConfig_t& config) {
  return std::make_unique<ParallelState>(world, sizes, config);
}

}  // namespace tutti::parallel
