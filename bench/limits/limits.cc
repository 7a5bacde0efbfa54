#include "bench/limits/limits.h"

#include <algorithm>
#include <cmath>

namespace tutti::bench {
namespace {

Json CurveToJson(const BandwidthCurve& curve) {
  Json json = Json::array();
  for (const auto& point : curve.points()) json.push_back({point.working_set, point.gbs});
  return json;
}

BandwidthCurve CurveFromJson(const Json& json) {
  std::vector<BandwidthCurve::Point> points;
  for (const Json& point : json) points.push_back({point.at(0), point.at(1)});
  return BandwidthCurve(std::move(points));
}

}  // namespace

double BandwidthCurve::At(double working_set) const {
  if (working_set <= points_.front().working_set) return points_.front().gbs;
  if (working_set >= points_.back().working_set) return points_.back().gbs;
  const auto above = std::find_if(points_.begin(), points_.end(),
                                  [&](const Point& point) { return point.working_set >= working_set; });
  const auto below = above - 1;
  const double share = std::log(working_set / below->working_set) / std::log(above->working_set / below->working_set);
  return below->gbs * std::pow(above->gbs / below->gbs, share);
}

double BandwidthCurve::Highest() const {
  double highest = 0;
  for (const Point& point : points_) highest = std::max(highest, point.gbs);
  return highest;
}

BandwidthCurve Better(const BandwidthCurve& a, const BandwidthCurve& b) {
  std::vector<BandwidthCurve::Point> points = a.points();
  for (std::size_t i = 0; i < points.size(); ++i) points[i].gbs = std::max(points[i].gbs, b.points().at(i).gbs);
  return BandwidthCurve(std::move(points));
}

const CoreBandwidth& Limits::With(int wanted) const {
  const CoreBandwidth* best = &bandwidth.front();
  for (const CoreBandwidth& candidate : bandwidth) {
    if (candidate.cores <= wanted) best = &candidate;
  }
  return *best;
}

Json ToJson(const Limits& limits) {
  Json json = {{"cores", limits.cores},
               {"line_round_trip_us", limits.line_round_trip_us},
               {"yield_round_trip_us", limits.yield_round_trip_us},
               {"private_cache_bytes", limits.private_cache_bytes},
               {"crossing_gbs", CurveToJson(limits.crossing)},
               {"bandwidth", Json::array()}};
  for (const CoreBandwidth& entry : limits.bandwidth) {
    json["bandwidth"].push_back({{"cores", entry.cores},
                                 {"copy_gbs", CurveToJson(entry.copy)},
                                 {"copy_nontemporal_gbs", CurveToJson(entry.copy_nontemporal)},
                                 {"add_gbs", CurveToJson(entry.add)},
                                 {"add_nontemporal_gbs", CurveToJson(entry.add_nontemporal)}});
  }
  return json;
}

Limits LimitsFromJson(const Json& json) {
  Limits limits;
  limits.cores = json.at("cores");
  limits.line_round_trip_us = json.at("line_round_trip_us");
  limits.yield_round_trip_us = json.at("yield_round_trip_us");
  limits.private_cache_bytes = json.value("private_cache_bytes", 0.0);  // older files do not have it
  limits.crossing = CurveFromJson(json.at("crossing_gbs"));
  for (const Json& entry : json.at("bandwidth")) {
    limits.bandwidth.push_back({entry.at("cores"), CurveFromJson(entry.at("copy_gbs")),
                                CurveFromJson(entry.at("copy_nontemporal_gbs")), CurveFromJson(entry.at("add_gbs")),
                                CurveFromJson(entry.at("add_nontemporal_gbs"))});
  }
  return limits;
}

}  // namespace tutti::bench
