#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/command_line/words.h"
#include "base/files/files.h"
#include "base/report/chart.h"
#include "base/report/progress.h"
#include "base/report/sizes.h"
#include "base/usage_error.h"
#include "selection/cost_model/candidates.h"
#include "tools/commands.h"
#include "tools/inspect/chosen_schedules.h"
#include "tools/json.h"
#include "tools/simulator/claims.h"
#include "tools/simulator/messages.h"
#include "tools/simulator/published.h"
#include "tools/simulator/simulated.h"
#include "tools/simulator/simulated_trace.h"
#include "tools/simulator/target.h"

namespace tutti::tools {
namespace {

struct SimulateOptions {
  std::string what = "all_reduce";  // or a program's FILE.xml
  TargetOptions target;
  std::vector<std::string> algorithms = {};
  std::string begin = "8";
  std::string end = "1G";
  double factor = 2;
  int channels = 0;
  std::string chunk;
  std::string protocol;
  std::string trace;
  std::string plot;
  bool links = false;
  bool full = false;
  bool json = false;
  std::string published;
  std::string systems = "selection/simulator/testdata/systems.csv";
  std::string claims;
};

std::vector<std::string> Protocols() {
  std::vector<std::string> names;
  for (int i = 0; i < ring::kProtocols; ++i) names.emplace_back(ring::NameOf(static_cast<ring::Protocol>(i)));
  return names;
}

// A row's competitor: an algorithm, the fastest of all, or a program.
struct Entrant {
  std::string name;
  std::vector<tuttiAlgorithm_t> algorithms = {};  // empty: all
  std::optional<msccl::Program> program = {};
};

bool IsProgram(const std::string& name) { return name.ends_with(".xml"); }

Entrant EntrantNamed(const std::string& name) {
  if (IsProgram(name)) return {std::filesystem::path(name).stem(), {}, ProvedSchedules({.what = name})};
  if (name == "best") return {name};
  return {name, {cost_model::ParseAlgorithm(name)}};
}

std::vector<Entrant> EntrantsOf(const SimulateOptions& options) {
  std::vector<Entrant> entrants;
  if (IsProgram(options.what)) entrants.push_back(EntrantNamed(options.what));
  for (const std::string& name : options.algorithms) entrants.push_back(EntrantNamed(name));
  if (entrants.empty()) entrants.push_back({"best"});
  return entrants;
}

// Programs fix the collective, the channels and the number of ranks, which becomes the default.
void FitToPrograms(SimulateOptions& options, schedule::Collective collective, const std::vector<Entrant>& entrants) {
  for (const Entrant& entrant : entrants) {
    if (!entrant.program) continue;
    const schedule::Schedule& schedule = entrant.program->ranks.front();
    if (schedule.collective != collective) {
      ThrowUsage("{} is a program for {}, not for {}", entrant.name, schedule::NameOf(schedule.collective),
                 schedule::NameOf(collective));
    }
    if (options.target.ranks == 0) options.target.ranks = schedule.nranks;
    if (schedule.nranks != options.target.ranks) {
      ThrowUsage("{} is a program for {} ranks, but {} are requested", entrant.name, schedule.nranks,
                 options.target.ranks);
    }
    if (options.channels > 0) {
      ThrowUsage("{} is a program with its own channels; --channels is for algorithms only", entrant.name);
    }
  }
}

// One line of the table.
struct Row {
  std::size_t bytes;
  Outcome outcome;
};

void PrintHeading(const SimulateOptions& options, const cost_model::Machine& machine) {
  fmt::print("# tutti simulate {}: {} ranks, {} node{}, {}\n", options.what, machine.nranks(), options.target.nodes,
             options.target.nodes == 1 ? "" : "s",
             !options.target.host.empty()      ? options.target.host
             : options.target.topology.empty() ? "shared memory"
                                               : options.target.topology);
  fmt::print("# {:>12}  {:>12}  {:>8}  {:>8}  {:<20} {:>8} {:>8} {:>6}  {}\n", "size (B)", "time (us)", "algbw",
             "busbw", "algorithm", "channels", "protocol", "chunk", "nodes simulated");
}

void Print(const cost_model::Machine& machine, const Row& row) {
  const simulator::SimulatedCall& call = row.outcome.call;
  const double us = row.outcome.result.duration_us;
  const double algbw = AlgorithmBandwidth(row.bytes, us);
  fmt::print("  {:>12}  {:>12.2f}  {:>8.2f}  {:>8.2f}  {:<20} {:>8} {:>8} {:>6}  {}\n", row.bytes, us, algbw,
             algbw * BusFactor(call.collective, machine.nranks()), builders::NameOf(call.algorithm), call.channels,
             ring::NameOf(call.config.protocol), report::FormatSize(call.config.chunk_bytes),
             row.outcome.node_classes ? row.outcome.node_classes->classes() : machine.rank_layout().nodes());
}

// Prints the links, in the simulated nodes, that carried data.
void PrintLinks(const cost_model::Machine& machine, const Outcome& outcome) {
  fmt::print("#   {:<48} {:>14} {:>6}\n", "link", "bytes", "used");
  for (int i = 0; i < machine.resources(); ++i) {
    if (outcome.result.bytes_over[i] == 0) continue;
    fmt::print("    {:<48} {:>14.0f} {:>5.1f}%\n",
               fmt::format("node {}: {}", machine.NodeOfResource(i), machine.resource(i).name),
               outcome.result.bytes_over[i], 100 * outcome.result.Utilisation(machine, i));
  }
}

nlohmann::ordered_json JsonOf(const cost_model::Machine& machine, const Row& row, bool links) {
  const simulator::SimulatedCall& call = row.outcome.call;
  const double us = row.outcome.result.duration_us;
  const double algbw = AlgorithmBandwidth(row.bytes, us);
  nlohmann::ordered_json json = {{"bytes", row.bytes},
                                 {"us", us},
                                 {"algbw_gbs", algbw},
                                 {"busbw_gbs", algbw * BusFactor(call.collective, machine.nranks())},
                                 {"algorithm", builders::NameOf(call.algorithm)},
                                 {"channels", call.channels},
                                 {"protocol", ring::NameOf(call.config.protocol)},
                                 {"chunk_bytes", call.config.chunk_bytes}};
  for (int i = 0; links && i < machine.resources(); ++i) {
    if (row.outcome.result.bytes_over[i] == 0) continue;
    json["links"].push_back({{"node", machine.NodeOfResource(i)},
                             {"name", machine.resource(i).name},
                             {"bytes", row.outcome.result.bytes_over[i]},
                             {"used", row.outcome.result.Utilisation(machine, i)}});
  }
  return json;
}

// A message between two GPUs in the library's way, or in the one that is asked for.
void RunMessages(const SimulateOptions& options) {
  const Target target = TargetOf(options.target, true);
  const Messages messages(target);
  nlohmann::ordered_json json = {{"collective", kMessage}, {"rows", nlohmann::ordered_json::array()}};
  if (!options.json)
    fmt::print("# {:>12}  {:>12}  {:>12}  {:>8}  {}\n", "size (B)", "time (us)", "predicted", "algbw", "way");
  for (const std::size_t bytes :
       report::Sweep(report::ParseSize(options.begin), report::ParseSize(options.end), options.factor, 0)) {
    auto way = messages.WayOf(bytes);
    if (options.channels > 0) way.channels = options.channels;
    if (!options.protocol.empty()) way.config.protocol = *ring::ProtocolFromName(options.protocol);
    if (!options.chunk.empty()) way.config.chunk_bytes = report::ParseSize(options.chunk);
    const double us = messages.Simulated(way, bytes), predicted = messages.Predicted(way, bytes);
    if (options.json) {
      json["rows"].push_back({{"bytes", bytes},
                              {"us", us},
                              {"predicted_us", predicted},
                              {"algbw_gbs", AlgorithmBandwidth(bytes, us)},
                              {"channels", way.channels},
                              {"protocol", ring::NameOf(way.config.protocol)},
                              {"chunk_bytes", way.config.chunk_bytes}});
      continue;
    }
    fmt::print("  {:>12}  {:>12.2f}  {:>12.2f}  {:>8.2f}  {}\n", bytes, us, predicted, AlgorithmBandwidth(bytes, us),
               Messages::ToString(way));
  }
  if (options.json) PrintJson(json);
}

void RunSweep(SimulateOptions options) {
  const std::vector<Entrant> entrants = EntrantsOf(options);
  const schedule::Collective collective = IsProgram(options.what) ? entrants.front().program->ranks.front().collective
                                                                  : cost_model::ParseCollective(options.what);
  FitToPrograms(options, collective, entrants);
  const Target target = TargetOf(options.target);
  const cost_model::Machine& machine = target.machine;
  report::Chart chart{fmt::format("{} simulated, {} ranks on {} node{}", options.what, machine.nranks(),
                                  options.target.nodes, options.target.nodes == 1 ? "" : "s"),
                      {{"time (us)"}, {"bus bandwidth (GB/s)"}}};
  nlohmann::ordered_json json = {{"collective", schedule::NameOf(collective)},
                                 {"ranks", machine.nranks()},
                                 {"nodes", options.target.nodes},
                                 {"rows", nlohmann::ordered_json::array()}};
  if (!options.json) PrintHeading(options, machine);
  const auto sizes = report::Sweep(report::ParseSize(options.begin), report::ParseSize(options.end), options.factor, 0);
  const NodesStandIn nodes_stand_in = options.full ? NodesStandIn::never : NodesStandIn::beyond_64_ranks;
  report::Progress progress(static_cast<int>(entrants.size() * sizes.size()), report::Progress::Steps::unlike);
  int step = 0;
  SimulatedTrace trace;
  for (const auto& [name, algorithms, program] : entrants) {
    Wish wish{collective, algorithms, 0, options.channels, ring::ProtocolFromName(options.protocol), 0, nodes_stand_in};
    if (!options.chunk.empty()) wish.chunk_bytes = report::ParseSize(options.chunk);
    if (program) wish.program = &program->ranks;
    report::Curve times{name};
    report::Curve bandwidths{name};
    for (const std::size_t bytes : sizes) {
      wish.bytes = bytes;
      const Row row{bytes, Fastest(target, wish, [&](std::size_t done, std::size_t of) {
                      progress.Step(step,
                                    fmt::format("{} {}: way {} of {}", name, report::FormatSize(bytes), done + 1, of));
                    })};
      ++step;
      progress.Clear();
      if (options.json) {
        json["rows"].push_back(JsonOf(machine, row, options.links));
      } else {
        Print(machine, row);
        if (options.links) PrintLinks(machine, row.outcome);
      }
      if (!options.trace.empty() && bytes == sizes.back()) {
        simulator::Timeline timeline;
        Run(machine, row.outcome.call, nodes_stand_in, &timeline);
        trace.Add(entrants.size() > 1 ? name : "", machine, row.outcome.call, timeline);
      }
      const double us = row.outcome.result.duration_us;
      times.points.emplace_back(bytes, us);
      bandwidths.points.emplace_back(bytes, AlgorithmBandwidth(bytes, us) * BusFactor(collective, machine.nranks()));
    }
    chart.panels[0].curves.push_back(std::move(times));
    chart.panels[1].curves.push_back(std::move(bandwidths));
  }
  if (options.json) PrintJson(json);
  if (!options.trace.empty()) trace.Write(options.trace);
  if (!options.plot.empty()) WriteFile(options.plot, report::Draw(chart));
}

}  // namespace

void AddSimulate(CLI::App& app) {
  auto options = std::make_shared<SimulateOptions>();
  auto* command = app.add_subcommand(
      "simulate", "simulate the time of a collective on a machine: schedules run over its links in virtual time");
  command
      ->add_option(
          "WHAT", options->what,
          "all_reduce, reduce_scatter, all_gather, ..., a program's FILE.xml, or send: a message from GPU 0 to GPU 1")
      ->capture_default_str();
  AddTargetOptions(*command, options->target);
  command
      ->add_option("--algo", options->algorithms,
                   "algorithms, programs (FILE.xml), or best: the fastest algorithm; default: the program, or best")
      ->delimiter(',');
  command->add_option("-b,--minbytes", options->begin, "smallest size")->capture_default_str();
  command->add_option("-e,--maxbytes", options->end, "largest size")->capture_default_str();
  command->add_option("-f,--stepfactor", options->factor, "factor from size to size")
      ->check(CLI::Range(1.01, 1e9))
      ->capture_default_str();
  command->add_option("--channels", options->channels, "number of channels; 0: the best of several")
      ->check(CLI::Range(0, 64));
  command->add_option("--chunk", options->chunk, "bytes of a slot; default: the best of several");
  command->add_option("--protocol,--wire", options->protocol, "how bytes sit in a slot; default: the best")
      ->check(command_line::OneOf(Protocols()));
  command->add_option("--trace", options->trace,
                      "write the timelines of the largest size into this file, for a browser's trace viewer");
  command->add_option("--plot", options->plot, "write a picture (SVG)");
  command->add_flag("--links", options->links, "print bytes and utilisation of every link");
  command->add_flag("--full", options->full, "simulate every rank, even if one node could represent others");
  command->add_option("--published", options->published,
                      "instead: compare with the published measurements in this CSV file");
  command->add_option("--systems", options->systems, "CSV file that describes the systems of these measurements")
      ->capture_default_str();
  command->add_option("--claims", options->claims,
                      "instead: draw charts of published claims about the algorithms into this directory");
  AddJsonFlag(*command, options->json);
  command->callback([options] {
    if (!options->published.empty()) {
      PrintPublished(options->published, options->systems);
    } else if (!options->claims.empty()) {
      DrawClaims(options->claims);
    } else if (options->what == kMessage) {
      RunMessages(*options);
    } else {
      RunSweep(*options);
    }
  });
}

}  // namespace tutti::tools
