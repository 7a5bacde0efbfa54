#include "tutti/parallel/process_group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <utility>

#include "parallel/mesh/calls_from_user.h"
#include "tutti/parallel/error.h"

namespace tutti::parallel {
namespace {

int RankOf(tuttiComm_t comm) {
  int rank = 0;
  check(tuttiCommUserRank(comm, &rank), comm);
  return rank;
}

std::vector<int> AllRanksOf(tuttiComm_t comm) {
  int size = 0;
  check(tuttiCommCount(comm, &size), comm);
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

void RequireCount(const char* what, const Tensor& tensor, std::size_t expected) {
  if (tensor.count() == expected) return;
  throw Error(tuttiInvalidArgument, fmt::format("{} has {} elements (shape {}), but {} are expected", what,
                                                tensor.count(), describe(tensor.shape), expected));
}

std::vector<std::size_t> PrefixSums(const std::vector<std::size_t>& counts) {
  std::vector<std::size_t> sums(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), sums.begin(), std::size_t{0});
  return sums;
}

// Row-major.
tuttiTensorLayout_t LayoutOf(const Tensor& tensor) {
  if (tensor.shape.size() > TUTTI_MAX_DIMS) {
    throw Error(tuttiInvalidArgument, fmt::format("a tensor of shape {} has {} dimensions, but at most {} can be sent",
                                                  describe(tensor.shape), tensor.shape.size(), TUTTI_MAX_DIMS));
  }
  tuttiTensorLayout_t layout{};
  layout.ndims = static_cast<int>(tensor.shape.size());
  std::size_t stride = 1;
  for (std::size_t d = tensor.shape.size(); d-- > 0;) {
    layout.shape[d] = tensor.shape[d];
    layout.strides[d] = stride;
    stride *= tensor.shape[d];
  }
  return layout;
}

}  // namespace

// The message of the group's lowest rank to the others, by the world's communicator.
struct ProcessGroup::Invitation {
  std::array<char, 256> group{};  // so that a rank that makes another one first gets an error
  tuttiUniqueId id{};
};

ProcessGroup::ProcessGroup(tuttiComm_t world)
    : world_(nullptr),
      name_("world"),
      ranks_(AllRanksOf(world)),
      rank_(RankOf(world)),
      config_(TUTTI_CONFIG_INITIALIZER),
      comm_(world) {}

ProcessGroup::ProcessGroup(ProcessGroup& world, std::string name, std::vector<int> ranks, const tuttiConfig_t& config)
    : world_(&world), name_(std::move(name)), ranks_(std::move(ranks)), config_(config) {
  const auto place = std::ranges::find(ranks_, world.rank());
  if (place == ranks_.end() || std::ranges::adjacent_find(ranks_, std::ranges::greater_equal()) != ranks_.end()) {
    throw Error(tuttiInvalidArgument,
                fmt::format("group \"{}\" has the ranks {}, which must ascend and include rank {}", name_,
                            fmt::join(ranks_, ", "), world.rank()));
  }
  rank_ = static_cast<int>(place - ranks_.begin());
}

ProcessGroup::~ProcessGroup() { close(); }

void ProcessGroup::close() {
  closed_ = true;
  const auto comm = std::exchange(comm_, nullptr);
  if (world_ != nullptr && comm != nullptr) tuttiCommDestroy(comm);
}

ProcessGroup::Invitation ProcessGroup::Exchange() {
  Invitation invitation;
  const auto text = fmt::format("\"{}\" of ranks {}", name_, fmt::join(ranks_, ", "));
  std::ranges::copy_n(text.begin(), static_cast<std::ptrdiff_t>(std::min(text.size(), invitation.group.size() - 1)),
                      invitation.group.begin());
  const auto mine = invitation.group;
  const tuttiComm_t world = world_->comm();
  if (rank_ == 0) {
    check(tuttiGetUniqueId(&invitation.id));
    check(tuttiGroupStart());
    // A started group is always ended; the first error is reported after that.
    auto result = tuttiSuccess;
    for (std::size_t member = 1; member < ranks_.size() && result == tuttiSuccess; ++member) {
      result = tuttiSend(&invitation, sizeof invitation, tuttiUint8, ranks_[member], world, nullptr);
    }
    const auto ended = tuttiGroupEnd();
    check(result != tuttiSuccess ? result : ended, world);
    return invitation;
  }
  check(tuttiRecv(&invitation, sizeof invitation, tuttiUint8, ranks_.front(), world, nullptr), world);
  invitation.group.back() = '\0';
  if (invitation.group != mine) {
    throw Error(tuttiInvalidUsage,
                fmt::format("rank {} first uses group {}, while rank {} first uses group {}: ranks that share several "
                            "groups must use new ones in the same order",
                            world_->rank(), mine.data(), ranks_.front(), invitation.group.data()));
  }
  return invitation;
}

tuttiComm_t ProcessGroup::comm() {
  if (comm_ != nullptr) return comm_;
  if (closed_) throw Error(tuttiInvalidUsage, fmt::format("group \"{}\" is closed", name_));
  const CallsFromUser user;
  const auto invitation = Exchange();
  auto config = config_;
  config.name = name_.c_str();
  check(tuttiCommInitRankConfig(&comm_, size(), invitation.id, rank_, &config));
  return comm_;
}

void ProcessGroup::revoke() noexcept {
  auto failure = tuttiSuccess;
  if (size() == 1 || comm_ == nullptr || tuttiCommGetAsyncError(comm_, &failure) != tuttiSuccess) return;
  if (failure == tuttiSuccess || failure == tuttiInProgress) tuttiCommRevoke(comm_, TUTTI_REVOKE_DEFAULT);
}

std::uint64_t ProcessGroup::bytes_sent() const {
  if (comm_ == nullptr) return 0;
  tuttiCounters_t counters{};
  counters.size = sizeof counters;
  check(tuttiCommGetCounters(comm_, &counters), comm_);
  std::uint64_t bytes = 0;
  for (const auto& transport : counters.bytesSent)
    bytes = std::accumulate(std::begin(transport), std::end(transport), bytes);
  return bytes;
}

void ProcessGroup::all_reduce(const Tensor& input, const Tensor& output, tuttiRedOp_t op, tuttiStream_t stream) {
  const CallsFromUser user;
  require_type("output", output, input.dtype);
  RequireCount("output", output, input.count());
  if (alone_in_place(input, output)) return;
  check(tuttiAllReduce(input.data, output.data, input.count(), input.dtype, op, comm(), stream), comm());
}

void ProcessGroup::all_gather(const Tensor& input, const Tensor& output, tuttiStream_t stream) {
  const CallsFromUser user;
  require_type("output", output, input.dtype);
  RequireCount("output", output, input.count() * ranks_.size());
  if (alone_in_place(input, output)) return;
  check(tuttiAllGather(input.data, output.data, input.count(), input.dtype, comm(), stream), comm());
}

void ProcessGroup::reduce_scatter(const Tensor& input, const Tensor& output, tuttiRedOp_t op, tuttiStream_t stream) {
  const CallsFromUser user;
  require_type("output", output, input.dtype);
  RequireCount("input", input, output.count() * ranks_.size());
  if (alone_in_place(input, output)) return;
  check(tuttiReduceScatter(input.data, output.data, output.count(), input.dtype, op, comm(), stream), comm());
}

void ProcessGroup::all_gather_v(const Tensor& input, const std::vector<std::size_t>& counts, const Tensor& output,
                                tuttiStream_t stream) {
  const CallsFromUser user;
  require_type("output", output, input.dtype);
  require_equal("the number of counts", counts.size(), "the size of the group", ranks_.size());
  const auto places = PrefixSums(counts);
  RequireCount("input", input, counts[static_cast<std::size_t>(rank_)]);
  RequireCount("output", output, places.back() + counts.back());
  if (alone_in_place(input, output)) return;
  check(tuttiAllGatherV(input.data, input.count(), output.data, counts.data(), places.data(), input.dtype, comm(),
                        stream),
        comm());
}

void ProcessGroup::reduce_scatter_v(const Tensor& input, const std::vector<std::size_t>& counts, const Tensor& output,
                                    tuttiRedOp_t op, tuttiStream_t stream) {
  const CallsFromUser user;
  require_type("output", output, input.dtype);
  require_equal("the number of counts", counts.size(), "the size of the group", ranks_.size());
  RequireCount("input", input, std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
  RequireCount("output", output, counts[static_cast<std::size_t>(rank_)]);
  if (alone_in_place(input, output)) return;
  check(tuttiReduceScatterV(input.data, output.data, counts.data(), input.dtype, op, comm(), stream), comm());
}

void ProcessGroup::broadcast(const Tensor& tensor, int root, tuttiStream_t stream) {
  const CallsFromUser user;
  if (size() == 1) return;
  check(tuttiBcast(tensor.data, tensor.count(), tensor.dtype, root, comm(), stream), comm());
}

void ProcessGroup::all_to_all(const Tensor& input, const std::vector<std::size_t>& send_counts, const Tensor& output,
                              const std::vector<std::size_t>& receive_counts, tuttiStream_t stream) {
  const CallsFromUser user;
  require_type("output", output, input.dtype);
  require_equal("the number of send counts", send_counts.size(), "the size of the group", ranks_.size());
  require_equal("the number of receive counts", receive_counts.size(), "the size of the group", ranks_.size());
  const auto from = PrefixSums(send_counts), to = PrefixSums(receive_counts);
  RequireCount("input", input, from.back() + send_counts.back());
  RequireCount("output", output, to.back() + receive_counts.back());
  check(tuttiAlltoAllV(input.data, send_counts.data(), from.data(), output.data, receive_counts.data(), to.data(),
                       input.dtype, comm(), stream),
        comm());
}

void ProcessGroup::all_gather_tensor(const Tensor& input, const Tensor& output, std::size_t dim, tuttiStream_t stream) {
  const CallsFromUser user;
  require_type("output", output, input.dtype);
  if (alone_in_place(input, output)) return;
  const auto part = LayoutOf(input), whole = LayoutOf(output);
  check(
      tuttiAllGatherTensor(input.data, &part, output.data, &whole, static_cast<int>(dim), input.dtype, comm(), stream),
      comm());
}

void ProcessGroup::all_to_all_tensor(const Tensor& input, std::size_t input_dim, const Tensor& output,
                                     std::size_t output_dim, tuttiStream_t stream) {
  const CallsFromUser user;
  require_type("output", output, input.dtype);
  const auto from = LayoutOf(input), to = LayoutOf(output);
  check(tuttiAlltoAllTensor(input.data, &from, static_cast<int>(input_dim), output.data, &to,
                            static_cast<int>(output_dim), input.dtype, comm(), stream),
        comm());
}

void ProcessGroup::barrier() {
  const CallsFromUser user;
  if (size() > 1) check(tuttiBarrier(comm(), nullptr), comm());
}

}  // namespace tutti::parallel
