#include "topology/xml/xml_element.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <utility>

#include "base/plain_text.h"

namespace tutti::xml {
namespace {

// The format itself needs 4 levels and one a PCI bridge; PCI has at most 256 buses on the way down, machines have 5.
constexpr int kMaxDepth = 32;
constexpr int kMaxAttributes = 64;     // the format has 12 at most
constexpr int kMaxElements = 100'000;  // 1,024 GPUs with 18 links each are a fifth of that

// Names and values longer than any that mean something here; the longest is a CPU mask of 256 words.
constexpr std::size_t kMaxName = 64;
constexpr std::size_t kMaxValue = 4096;

// XML 1.0, 2.2, and DEL. Text kept from a file may be printed to a terminal.
bool IsControl(char c) {
  constexpr char kDelete = 0x7f;
  return (static_cast<unsigned char>(c) < ' ' && c != '\t' && c != '\n' && c != '\r') || c == kDelete;
}

}  // namespace

XmlDocument::XmlDocument(std::string_view text, std::string name) : text_(text), name_(std::move(name)) {
  if (text.size() > kMaxXmlBytes) {
    Throw(tuttiInvalidArgument, "{}: {} bytes; the limit for a topology file is {}", name_, text.size(), kMaxXmlBytes);
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') line_ends_.push_back(i);
  }
  const auto control = std::find_if(text.begin(), text.end(), IsControl);
  if (control != text.end()) {
    Refuse(static_cast<std::size_t>(control - text.begin()),
           fmt::format("a control character, {:#04x}, which XML does not allow", static_cast<unsigned char>(*control)));
  }
  // With the document type in the tree, CheckShape sees and refuses it. Entities are never expanded either way.
  const auto result =
      document_.load_buffer(text.data(), text.size(), pugi::parse_default | pugi::parse_doctype, pugi::encoding_utf8);
  if (!result) Refuse(static_cast<std::size_t>(std::max<std::ptrdiff_t>(result.offset, 0)), result.description());
  CheckShape();
}

void XmlDocument::CheckShape() const {
  // A loop instead of recursion, because the depth is what is checked.
  int depth = 0;
  int elements = 0;
  for (pugi::xml_node node = document_.first_child(); node;) {
    if (node.type() == pugi::node_doctype) {
      Refuse(text_.find("<!DOCTYPE"), "a document type (DOCTYPE) is not allowed in a topology");
    }
    if (++elements > kMaxElements) Refuse(node.offset_debug(), fmt::format("more than {} elements", kMaxElements));
    if (std::string_view(node.name()).size() > kMaxName) {
      Refuse(node.offset_debug(), fmt::format("an element whose name has more than {} characters", kMaxName));
    }
    if (!IsPrintable(node.name())) {
      Refuse(node.offset_debug(), fmt::format("an element with the name {}", Quoted(node.name())));
    }
    std::set<std::string_view> names;
    for (const auto attribute : node.attributes()) {
      if (names.size() >= kMaxAttributes)
        Refuse(node.offset_debug(), fmt::format("more than {} attributes", kMaxAttributes));
      CheckAttribute(node, attribute);
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

void XmlDocument::CheckAttribute(pugi::xml_node node, pugi::xml_attribute attribute) const {
  const std::string_view value = attribute.value();
  if (std::string_view(attribute.name()).size() > kMaxName) {
    Refuse(node.offset_debug(), fmt::format("an attribute whose name has more than {} characters", kMaxName));
  }
  if (!IsPrintable(attribute.name())) {
    Refuse(node.offset_debug(), fmt::format("an attribute with the name {}", Quoted(attribute.name())));
  }
  if (value.size() > kMaxValue) {
    Refuse(node.offset_debug(), fmt::format("{} has more than {} characters", attribute.name(), kMaxValue));
  }
  // They may also be written as &#27;.
  if (!IsPrintable(value)) {
    Refuse(node.offset_debug(),
           fmt::format("{} has a control character, or bytes that are not UTF-8", attribute.name()));
  }
}

XmlElement XmlDocument::root() const {
  const auto root = document_.document_element();
  if (!root) Refuse(0, "the file has no element");
  return {*this, root};
}

void XmlDocument::Refuse(std::size_t offset, const std::string& reason) const {
  Throw(tuttiInvalidArgument, "{}:{}: {}", Printable(name_), LineOf(offset), reason);
}

std::size_t XmlDocument::LineOf(std::size_t offset) const {
  return 1 +
         static_cast<std::size_t>(std::lower_bound(line_ends_.begin(), line_ends_.end(), offset) - line_ends_.begin());
}

std::vector<XmlElement> XmlElement::children() const {
  std::vector<XmlElement> found;
  for (const auto child : node_.children()) {
    if (child.type() == pugi::node_element) found.emplace_back(*document_, child);
  }
  return found;
}

std::size_t XmlElement::line() const { return document_->LineOf(static_cast<std::size_t>(node_.offset_debug())); }

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
    Refuse("<{}> has {}={}, which is not a whole number", name(), attribute, Quoted(whole));
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
    Refuse("<{}> has {}={}, which is not a number", name(), attribute, Quoted(whole));
  }
  if (value < low || value > high) {
    Refuse("<{}> has {}={}, which must be from {} to {}", name(), attribute, Quoted(whole), low, high);
  }
  return value;
}

}  // namespace tutti::xml
