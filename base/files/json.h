// JSON from files and peers. Everything is bounded before it is built. Wrong input is refused with the file, the place
// in it and what was expected. Nothing but Error is thrown.
//
// Thread-safety: immutable after construction. A JsonValue refers to its document, which must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace tutti {

struct JsonLimits {
  // The largest file is a dump of 32,000 ranks, with a line or two each.
  std::size_t bytes = std::size_t{8} << 20;
  int depth = 16;  // a selection table inside a calibration inside rank 0's message has 8
  // A value takes up to 100 bytes, most of them in its object's tree: so 64 MiB in all.
  std::size_t values = 600'000;
};

class JsonValue;

class JsonDocument {
 public:
  // `name` appears in messages. Throws tuttiInvalidArgument for text that is no JSON, too large or too deep.
  JsonDocument(std::string_view text, std::string name, const JsonLimits& limits = {});
  // Likewise for binary JSON (CBOR), as ranks send it.
  static JsonDocument FromBinary(std::span<const std::uint8_t> bytes, std::string name, const JsonLimits& limits = {});
  JsonDocument(JsonDocument&&) noexcept;
  JsonDocument& operator=(JsonDocument&&) noexcept;
  ~JsonDocument();

  JsonValue root() const;
  const std::string& name() const { return name_; }

 private:
  explicit JsonDocument(std::string name);

  std::string name_;
  std::unique_ptr<const nlohmann::json> json_;
};

// A value and its place in the document: "rows[3].entries[0]". The getters of an object's entries refuse an entry that
// is missing (unless they have a fallback), has another type or is out of bounds.
class JsonValue {
 public:
  bool IsObject() const;
  bool Has(std::string_view key) const;
  JsonValue At(std::string_view key) const;
  // An array's entries.
  std::vector<JsonValue> List(std::string_view key) const;
  // An object's entries by name; the views live as long as the document.
  std::vector<std::pair<std::string_view, JsonValue>> Entries() const;

  // Printable (base/plain_text.h) and bounded, as it may end on a terminal.
  std::string Text(std::string_view key, std::optional<std::string_view> fallback = std::nullopt) const;
  // The text unchanged.
  const std::string& RawText(std::string_view key) const;
  std::uint64_t Whole(std::string_view key, std::uint64_t low, std::uint64_t high,
                      std::optional<std::uint64_t> fallback = std::nullopt) const;
  // An array of such numbers.
  std::vector<std::uint64_t> Wholes(std::string_view key, std::uint64_t low, std::uint64_t high) const;
  // Whole, may be negative.
  std::int64_t Integer(std::string_view key, std::int64_t low, std::int64_t high,
                       std::optional<std::int64_t> fallback = std::nullopt) const;
  // Finite.
  double Number(std::string_view key, double low, double high, std::optional<double> fallback = std::nullopt) const;
  bool Flag(std::string_view key, std::optional<bool> fallback = std::nullopt) const;

  // The value as JSON in one line.
  std::string Spelled() const;

  template <typename... Args>
  [[noreturn]] void Refuse(fmt::format_string<Args...> format, Args&&... args) const {
    RefuseAs(fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  friend class JsonDocument;
  JsonValue(const std::string& name, const nlohmann::json& json, std::string place)
      : name_(&name), json_(&json), place_(std::move(place)) {}

  // nullptr: the entry is missing, or null.
  const nlohmann::json* Find(std::string_view key) const;
  [[noreturn]] void RefuseAs(const std::string& reason) const;
  // "`key` is `what it is`; it takes `expected`".
  [[noreturn]] void RefuseEntry(std::string_view key, const std::string& expected) const;

  const std::string* name_;
  const nlohmann::json* json_;
  std::string place_;
};

// Any values as text with a line end. Bytes that are no UTF-8 are replaced.
inline constexpr int kOneLine = -1;
std::string JsonText(const nlohmann::ordered_json& json, int indent = 1);

}  // namespace tutti
