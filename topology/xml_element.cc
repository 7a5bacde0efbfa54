#include "topology/xml_element.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <utility>

namespace tutti {
namespace {

// The format itself needs 4 levels and one a PCI bridge; PCI has at most 256 buses on the way down, machines have 5.
constexpr int kMaxDepth = 32;
constexpr int kMaxAttributes = 64;  // the format has 12 at most

std::size_t LineOf(std::string_view text, std::size_t offset) {
  return 1 + static_cast<std::size_t>(std::count(text.begin(), text.begin() + std::min(offset, text.size()), '\n'));
}

// Part of a message: a value may be long, and is not ours.
std::string Quoted(std::string_view value) {
  constexpr std::size_t kShown = 60;
  std::string quoted = "\"";
  for (const char c : value.substr(0, kShown)) {
    const auto code = static_cast<unsigned char>(c);
    if (code >= ' ' && code < 0x7f) {
      quoted += c;
    } else {
      quoted += fmt::format("\\x{:02x}", code);
    }
  }
  return quoted + (value.size() > kShown ? "...\"" : "\"");
}

}  // namespace

XmlDocument::XmlDocument(std::string_view text, std::string name) : text_(text), name_(std::move(name)) {
  if (text.size() > kMaxXmlBytes) {
    Throw(tuttiInvalidArgument, "{}: {} bytes; a topology file may have {}", name_, text.size(), kMaxXmlBytes);
  }
  if (const auto nul = text.find('\0'); nul != std::string_view::npos) Refuse(nul, "a NUL byte, so this is no text");
  // With the document type in the tree it can be seen, and refused. Entities are never expanded either way.
  const auto result =
      document_.load_buffer(text.data(), text.size(), pugi::parse_default | pugi::parse_doctype, pugi::encoding_utf8);
  if (!result) Refuse(static_cast<std::size_t>(std::max<std::ptrdiff_t>(result.offset, 0)), result.description());
  CheckShape();
}

void XmlDocument::CheckShape() const {
  // By hand and not by recursion, as the depth is what is in doubt.
  int depth = 0;
  for (pugi::xml_node node = document_.first_child(); node;) {
    if (node.type() == pugi::node_doctype) {
      Refuse(text_.find("<!DOCTYPE"), "a document type (DOCTYPE) is not allowed in a topology");
    }
    std::set<std::string_view> names;
    for (const auto attribute : node.attributes()) {
      if (names.size() >= kMaxAttributes)
        Refuse(node.offset_debug(), fmt::format("more than {} attributes", kMaxAttributes));
      if (!names.insert(attribute.name()).second) {
        Refuse(node.offset_debug(), fmt::format("<{}> has two attributes {}", node.name(), attribute.name()));
      }
    }
    if (node.first_child()) {
      if (++depth > kMaxDepth) Refuse(node.offset_debug(), fmt::format("elements nested deeper than {}", kMaxDepth));
      node = node.first_child();
      continue;
    }
    while (node && !node.next_sibling()) {
      node = node.parent();
      --depth;
    }
    if (node) node = node.next_sibling();
  }
}

XmlElement XmlDocument::root() const {
  const auto root = document_.document_element();
  if (!root) Refuse(0, "no element at all");
  return {*this, root};
}

void XmlDocument::Refuse(std::size_t offset, const std::string& reason) const {
  Throw(tuttiInvalidArgument, "{}:{}: {}", name_, LineOf(text_, offset), reason);
}

std::vector<XmlElement> XmlElement::children() const {
  std::vector<XmlElement> found;
  for (const auto child : node_.children()) {
    if (child.type() == pugi::node_element) found.emplace_back(*document_, child);
  }
  return found;
}

int XmlElement::line() const {
  return static_cast<int>(LineOf(document_->text_, static_cast<std::size_t>(node_.offset_debug())));
}

std::string_view XmlElement::Text(const char* attribute, std::string_view fallback) const {
  const auto found = node_.attribute(attribute);
  return found ? std::string_view(found.value()) : fallback;
}

std::string_view XmlElement::RequiredText(const char* attribute) const {
  const auto text = Text(attribute);
  if (text.empty()) Refuse("<{}> has no {}", name(), attribute);
  return text;
}

long long XmlElement::Integer(const char* attribute, long long low, long long high, long long fallback) const {
  if (!Has(attribute)) return fallback;
  const auto whole = Text(attribute);
  const bool hex = whole.starts_with("0x") || whole.starts_with("0X");
  const auto digits = whole.substr(hex ? 2 : 0);
  long long value = 0;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value, hex ? 16 : 10);
  if (status == std::errc::result_out_of_range ||
      (status == std::errc() && end == digits.data() + digits.size() && (value < low || value > high))) {
    Refuse("<{}> has {}={}, which must be from {} to {}", name(), attribute, Quoted(whole), low, high);
  }
  if (status != std::errc() || end != digits.data() + digits.size()) {
    Refuse("<{}> has {}={}, which is no whole number", name(), attribute, Quoted(whole));
  }
  return value;
}

long long XmlElement::RequiredInteger(const char* attribute, long long low, long long high) const {
  RequiredText(attribute);
  return Integer(attribute, low, high, low);
}

double XmlElement::Number(const char* attribute, double low, double high, double fallback) const {
  if (!Has(attribute)) return fallback;
  const auto whole = Text(attribute);
  double value = 0;
  const auto [end, status] = std::from_chars(whole.data(), whole.data() + whole.size(), value);
  if (status != std::errc() || end != whole.data() + whole.size() || !std::isfinite(value)) {
    Refuse("<{}> has {}={}, which is no number", name(), attribute, Quoted(whole));
  }
  if (value < low || value > high) {
    Refuse("<{}> has {}={}, which must be from {} to {}", name(), attribute, Quoted(whole), low, high);
  }
  return value;
}

}  // namespace tutti
