#include "tools/planner/plan_cost.h"

#include <algorithm>
#include <cmath>

#include "selection/cost_model/machine_of_system.h"
#include "selection/simulator/node_classes.h"
#include "tools/simulator/simulated.h"
#include "tools/simulator/target.h"

namespace tutti::tools {
namespace {

constexpr double kUsPerSecond = 1e6;
// Prices are computed at 4^k bytes.
constexpr int kBitsPerPower = 2;

// The most bytes of a rank, as powers of four, that are simulated: where one node stands for all, and where every rank
// is simulated. Larger collectives are long enough that times grow in proportion to prices.
constexpr int kMostPlayed = 13, kMostPlayedByEveryRank = 10;  // 64 MiB, 1 MiB

// The part of `work` that remains exposed when it overlaps with `cover`.
double Exposed(double work, double cover) { return std::max(0.0, work - cover); }

// The number of GPUs that share a NIC, if groups of one GPU per node all use their NICs at the same time.
double GpusPerNic(const Cluster& cluster) {
  const auto nics = cluster.node.All(topology::DeviceKind::nic, 0).size();
  return nics == 0 ? 1 : std::max(1.0, static_cast<double>(cluster.gpus) / static_cast<double>(nics));
}

}  // namespace

StepCosts::Place::Place(cost_model::Machine its_machine, double groups)
    : machine(std::move(its_machine)), tuning(ConditionsOf({machine, true})), tuner(machine, tuning), sharing(groups) {}

std::size_t StepCosts::Place::BlockBytes(schedule::Collective collective, int power) const {
  return BytesOfBlock(collective, std::size_t{1} << (kBitsPerPower * power), machine.nranks());
}

tuner::Estimate StepCosts::Place::Choice(schedule::Collective collective, int power) {
  return tuner.Compare({collective}, BlockBytes(collective, power)).front();
}

StepCosts::Place& StepCosts::PlaceOf(const GroupShape& group) {
  const int on_node = std::clamp(cluster_.gpus / group.stride, 1, group.size);
  const int nodes = (group.size + on_node - 1) / on_node;
  auto& place = places_[{on_node, nodes}];
  if (place == nullptr) {
    const bool alone = nodes == 1 || on_node == cluster_.gpus;
    place = std::make_unique<Place>(cost_model::MachineOfSystem(cluster_.node, nodes, on_node),
                                    alone ? 1 : GpusPerNic(cluster_));
  }
  return *place;
}

double StepCosts::AtPower(schedule::Collective collective, const GroupShape& group, int power) {
  auto& place = PlaceOf(group);
  const auto [seconds, fresh] = place.seconds.emplace(std::pair(collective, power), 0);
  if (fresh) seconds->second = place.sharing * Microseconds(place, collective, power) / kUsPerSecond;
  return seconds->second;
}

double StepCosts::Microseconds(Place& place, schedule::Collective collective, int power) const {
  const double price = place.Choice(collective, power).us;
  return source_ == TimeSource::price ? price : price * SimulationByPrice(place, collective, power);
}

double StepCosts::SimulationByPrice(Place& place, schedule::Collective collective, int power) const {
  const auto& where = place.machine.rank_layout();
  const auto alike = [&](int played) {
    return simulator::FindNodeClasses(place.Choice(collective, played).algorithm, collective, where).has_value();
  };
  int played = std::min(power, kMostPlayed);
  if (!alike(played)) {
    played = std::min(power, kMostPlayedByEveryRank);
    if (!alike(played) && where.nranks() > kRanksInFull) return 1;
  }
  const auto [ratio, fresh] = place.played.emplace(std::pair(collective, played), 1);
  if (fresh) {
    const auto chosen = place.Choice(collective, played);
    const simulator::SimulatedCall call{collective, chosen.algorithm, place.BlockBytes(collective, played),
                                        chosen.candidate.channels, chosen.candidate.config};
    ratio->second = Run(place.machine, call, NodesStandIn::wherever_exact).result.duration_us / chosen.us;
  }
  return ratio->second;
}

double StepCosts::Seconds(schedule::Collective collective, const GroupShape& group, double bytes) {
  if (group.size <= 1 || bytes < 1) return 0;
  const int power = static_cast<int>(std::log2(bytes)) / kBitsPerPower;
  const double low = std::exp2(kBitsPerPower * power), high = std::exp2(kBitsPerPower * (power + 1));
  const double from = AtPower(collective, group, power), to = AtPower(collective, group, power + 1);
  return from + (to - from) * (bytes - low) / (high - low);
}

double StepCosts::SendSeconds(int stride, double bytes) {
  return Seconds(schedule::Collective::broadcast, {2, stride}, bytes);
}

StepTime StepCosts::TimeOf(const Strategy& s) {
  const double rate = cluster_.tflops * 1e12 * cluster_.efficiency;
  const double tokens = s.micro_batch * model_.sequence / s.cp;  // of a micro-batch, per tensor-parallel group
  const int layers = s.stage_layers(model_), last_layers = std::max(0, model_.layers - (s.pp - 1) * layers);
  const int microbatches = s.microbatches(model_);
  const double passes = s.recompute ? 4 : 3;  // a backward pass computes twice as much as a forward one
  const auto seconds = [&](double flops_of_token) { return tokens * flops_of_token / s.tp / rate; };

  // One micro-batch on the fullest stage; the last stage also has the head.
  const double stage_flops =
      std::max(layers * model_.layer_flops(), last_layers * model_.layer_flops() + model_.head_flops());
  const double forward_compute = seconds(stage_flops);

  // Megatron-LM with sequence parallelism: an all-gather before and a reduce-scatter after attention, and the same for
  // the MLP. The backward pass does the same and gathers the inputs once more. Experts are whole: their tokens stay
  // split.
  const GroupShape tensor{s.tp, 1};
  const double activations = tokens * model_.hidden * kActivationBytes;
  const double pairs = model_.experts > 0 ? 1 : 2;
  const double gather = Seconds(schedule::Collective::all_gather, tensor, activations);
  const double scatter = Seconds(schedule::Collective::reduce_scatter, tensor, activations);
  const double tensor_forward = layers * pairs * (gather + scatter);
  const double tensor_all = tensor_forward * (s.recompute ? 3 : 2) + layers * pairs * gather;

  // Tokens go to their experts and come back; the same in the backward pass.
  const double dispatched = activations / s.tp * model_.top_k;
  const double expert_forward = 2 * layers * Seconds(schedule::Collective::all_to_all, {s.ep, 1}, dispatched);
  const double experts_all = expert_forward * (s.recompute ? 3 : 2);

  // Keys and values go around the ring while attention computes; in the backward pass again, with their gradients in
  // fp32.
  const double attention = seconds(2 * model_.sequence * model_.hidden) * layers;
  const double ring_bytes = tokens * 2 * model_.hidden * model_.kv_heads / model_.heads / s.tp * kActivationBytes;
  const double ring = s.cp > 1 ? layers * (s.cp - 1) * SendSeconds(s.tp, ring_bytes) : 0;
  const double context_forward = Exposed(ring, attention), context_backward = Exposed(3 * ring, 2 * attention);

  const double forward = forward_compute + tensor_forward + expert_forward + context_forward;
  const double all =
      passes * forward_compute + tensor_all + experts_all + context_forward * (s.recompute ? 2 : 1) + context_backward;
  const double backward = all - forward;

  StepTime time;
  time.compute = microbatches * passes * forward_compute;
  time.tensor = microbatches * tensor_all;
  time.experts = microbatches * experts_all;
  time.context = microbatches * (context_forward * (s.recompute ? 2 : 1) + context_backward);
  // Fewer micro-batches than stages do not fill the way from the last stage back to the first one, once for each chunk
  // but one.
  const double missing = std::max(0, s.pp - microbatches) * (s.virtual_stages - 1.0);
  time.bubble = (s.pp - 1 + missing) / s.virtual_stages * all;
  if (s.pp > 1) {
    const int stride = s.tp * s.cp * s.dp;
    time.pipeline_sends = 2.0 * s.virtual_stages * microbatches * SendSeconds(stride, activations / s.tp);
  }

  // Gradients are in fp32, parameters in bf16; experts have their own replicas.
  const auto share = ShareOf(s, model_);
  const GroupShape replicas{s.dp * s.cp, s.tp}, expert_replicas{s.tp * s.cp * s.dp / s.ep, s.ep};
  const auto sum = [&](schedule::Collective collective, double bytes) {
    return Seconds(collective, replicas, share.dense * bytes) +
           Seconds(collective, expert_replicas, share.experts * bytes);
  };
  const double gathered = sum(schedule::Collective::all_gather, kParameterBytes);
  const double scattered = sum(schedule::Collective::reduce_scatter, kGradientBytes);
  switch (s.zero) {
    case 0: time.data = Exposed(sum(schedule::Collective::all_reduce, kGradientBytes), backward); break;
    case 1: time.data = Exposed(scattered, backward) + Exposed(gathered, forward); break;
    case 2: time.data = microbatches * Exposed(scattered, backward) + Exposed(gathered, forward); break;
    default: time.data = microbatches * Exposed(2 * gathered + scattered, all); break;
  }
  return time;
}

}  // namespace tutti::tools
