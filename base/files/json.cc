#include "base/files/json.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/plain_text.h"

namespace tutti {
namespace {

using Json = nlohmann::json;

// Scans a document without building it, so that one that is too deep or too large is refused before it is built. Values
// are copied, printed and compared by recursion, so a deep one would overflow the stack.
class Surveyor : public nlohmann::json_sax<Json> {
 public:
  explicit Surveyor(const JsonLimits& limits) : limits_(limits) {}

  // Empty: nothing is wrong.
  const std::string& wrong() const { return wrong_; }

  bool null() override { return Count(); }
  bool boolean(bool) override { return Count(); }
  bool number_integer(number_integer_t) override { return Count(); }
  bool number_unsigned(number_unsigned_t) override { return Count(); }
  bool number_float(number_float_t, const string_t&) override { return Count(); }
  bool string(string_t&) override { return Count(); }
  bool binary(binary_t&) override { return Refuse("binary data, which JSON does not have"); }
  bool key(string_t&) override { return true; }
  bool start_object(std::size_t) override { return Descend(); }
  bool start_array(std::size_t) override { return Descend(); }
  bool end_object() override { return Ascend(); }
  bool end_array() override { return Ascend(); }
  bool parse_error(std::size_t, const std::string&, const Json::exception& exception) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ...": the text after the bracket is shown.
    const std::string_view text = exception.what();
    const auto bracket = text.find("] ");
    constexpr std::size_t kMaxReason = 200;  // it quotes what was read last
    return Refuse("not valid JSON: " + Printable(bracket == text.npos ? text : text.substr(bracket + 2), kMaxReason));
  }

 private:
  bool Count() { return ++values_ <= limits_.values || Refuse(fmt::format("more than {} values", limits_.values)); }
  bool Descend() {
    return ++depth_ <= limits_.depth ? Count() : Refuse(fmt::format("nested deeper than {} levels", limits_.depth));
  }
  bool Ascend() {
    --depth_;
    return true;
  }
  bool Refuse(std::string why) {
    wrong_ = std::move(why);
    return false;
  }

  const JsonLimits& limits_;
  std::size_t values_ = 0;
  int depth_ = 0;
  std::string wrong_;
};

// Formats a value for a message.
std::string Shown(const Json& json) {
  switch (json.type()) {
    case Json::value_t::string: return Quoted(json.get_ref<const std::string&>());
    case Json::value_t::object: return "an object";
    case Json::value_t::array: return fmt::format("a list of {}", json.size());
    case Json::value_t::binary: return "bytes";
    default: return json.dump();  // a number or a word
  }
}

template <typename Input>
std::unique_ptr<const Json> Build(const Input& input, const std::string& name, const JsonLimits& limits,
                                  Json::input_format_t format) {
  if (input.size() > limits.bytes) {
    Throw(tuttiInvalidArgument, "{}: {} bytes; the limit is {}", Printable(name), input.size(), limits.bytes);
  }
  Surveyor surveyor(limits);
  if (!Json::sax_parse(input.begin(), input.end(), &surveyor, format)) {
    Throw(tuttiInvalidArgument, "{}: {}", Printable(name), surveyor.wrong());
  }
  auto json = format == Json::input_format_t::json ? Json::parse(input.begin(), input.end(), nullptr, false)
                                                   : Json::from_cbor(input.begin(), input.end(), true, false);
  return std::make_unique<const Json>(std::move(json));
}

}  // namespace

JsonDocument::JsonDocument(std::string name) : name_(std::move(name)) {}
JsonDocument::JsonDocument(JsonDocument&&) noexcept = default;
JsonDocument& JsonDocument::operator=(JsonDocument&&) noexcept = default;
JsonDocument::~JsonDocument() = default;

JsonDocument::JsonDocument(std::string_view text, std::string name, const JsonLimits& limits) : name_(std::move(name)) {
  json_ = Build(text, name_, limits, Json::input_format_t::json);
}

JsonDocument JsonDocument::FromBinary(std::span<const std::uint8_t> bytes, std::string name, const JsonLimits& limits) {
  JsonDocument document(std::move(name));
  document.json_ = Build(bytes, document.name_, limits, Json::input_format_t::cbor);
  return document;
}

JsonValue JsonDocument::root() const { return {name_, *json_, ""}; }

bool JsonValue::IsObject() const { return json_->is_object(); }

const nlohmann::json* JsonValue::Find(std::string_view key) const {
  if (!json_->is_object()) Refuse("{} where an object is expected", Shown(*json_));
  const auto found = json_->find(key);
  return found == json_->end() || found->is_null() ? nullptr : &*found;
}

bool JsonValue::Has(std::string_view key) const { return Find(key) != nullptr; }

JsonValue JsonValue::At(std::string_view key) const {
  const auto* const found = Find(key);
  if (found == nullptr) Refuse("\"{}\" is missing", key);
  return {*name_, *found, place_.empty() ? Printable(key, kMaxQuoted) : place_ + "." + Printable(key, kMaxQuoted)};
}

std::vector<JsonValue> JsonValue::List(std::string_view key) const {
  const JsonValue list = At(key);
  if (!list.json_->is_array()) RefuseEntry(key, "a list");
  std::vector<JsonValue> values;
  values.reserve(list.json_->size());
  for (const auto& each : *list.json_)
    values.push_back({*name_, each, fmt::format("{}[{}]", list.place_, values.size())});
  return values;
}

std::vector<std::pair<std::string_view, JsonValue>> JsonValue::Entries() const {
  if (!json_->is_object()) Refuse("{} where an object is expected", Shown(*json_));
  std::vector<std::pair<std::string_view, JsonValue>> entries;
  for (const auto& [key, value] : json_->items()) entries.emplace_back(key, At(key));
  return entries;
}

std::string JsonValue::Text(std::string_view key, std::optional<std::string_view> fallback) const {
  if (fallback && !Has(key)) return std::string(*fallback);
  return Printable(RawText(key));
}

const std::string& JsonValue::RawText(std::string_view key) const {
  const JsonValue value = At(key);
  if (!value.json_->is_string()) RefuseEntry(key, "a string");
  return value.json_->get_ref<const std::string&>();
}

std::uint64_t JsonValue::Whole(std::string_view key, std::uint64_t low, std::uint64_t high,
                               std::optional<std::uint64_t> fallback) const {
  if (fallback && !Has(key)) return *fallback;
  const auto& json = *At(key).json_;
  if (json.is_number_unsigned() && json.get<std::uint64_t>() >= low && json.get<std::uint64_t>() <= high) {
    return json.get<std::uint64_t>();
  }
  RefuseEntry(key, fmt::format("a whole number from {} to {}", low, high));
}

std::vector<std::uint64_t> JsonValue::Wholes(std::string_view key, std::uint64_t low, std::uint64_t high) const {
  std::vector<std::uint64_t> numbers;
  for (const JsonValue& each : List(key)) {
    const auto& json = *each.json_;
    if (!json.is_number_unsigned() || json.get<std::uint64_t>() < low || json.get<std::uint64_t>() > high)
      each.Refuse("{} where a whole number from {} to {} is expected", Shown(json), low, high);
    numbers.push_back(json.get<std::uint64_t>());
  }
  return numbers;
}

std::int64_t JsonValue::Integer(std::string_view key, std::int64_t low, std::int64_t high,
                                std::optional<std::int64_t> fallback) const {
  if (fallback && !Has(key)) return *fallback;
  const auto& json = *At(key).json_;
  const bool fits = json.is_number_unsigned() ? json.get<std::uint64_t>() <=
                                                    static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())
                                              : json.is_number_integer();
  if (fits && json.get<std::int64_t>() >= low && json.get<std::int64_t>() <= high) return json.get<std::int64_t>();
  RefuseEntry(key, fmt::format("a whole number from {} to {}", low, high));
}

double JsonValue::Number(std::string_view key, double low, double high, std::optional<double> fallback) const {
  if (fallback && !Has(key)) return *fallback;
  const auto& json = *At(key).json_;
  if (json.is_number()) {
    const auto value = json.get<double>();
    if (std::isfinite(value) && value >= low && value <= high) return value;
  }
  RefuseEntry(key, fmt::format("a number from {:.16g} to {:.16g}", low, high));
}

bool JsonValue::Flag(std::string_view key, std::optional<bool> fallback) const {
  if (fallback && !Has(key)) return *fallback;
  const auto& json = *At(key).json_;
  if (!json.is_boolean()) RefuseEntry(key, "true or false");
  return json.get<bool>();
}

std::string JsonValue::Spelled() const { return json_->dump(-1, ' ', false, Json::error_handler_t::replace); }

void JsonValue::RefuseAs(const std::string& reason) const {
  Throw(tuttiInvalidArgument, "{}: {}{}{}", Printable(*name_), place_, place_.empty() ? "" : ": ", Printable(reason));
}

void JsonValue::RefuseEntry(std::string_view key, const std::string& expected) const {
  Refuse("\"{}\" is {}; it takes {}", key, Shown(*Find(key)), expected);
}

std::string JsonText(const nlohmann::ordered_json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace tutti
