// Elements and attributes of untrusted XML: everything is bounded, and errors are refused with the file, the line and
// the reason.
//
// Thread-safety: value types; an element refers to its document, which must outlive it.
#pragma once

#include <cstddef>
#include <pugixml.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace tutti::xml {

// A dump of 72 GPUs with all their links has 100 KiB.
inline constexpr std::size_t kMaxXmlBytes = std::size_t{8} << 20;

class XmlElement;

class XmlDocument {
 public:
  // `name` appears in messages. Throws tuttiInvalidArgument for text that is no XML, is larger, deeper or wider than
  // allowed, or has a document type (which could declare entities).
  XmlDocument(std::string_view text, std::string name);
  XmlDocument(const XmlDocument&) = delete;
  XmlDocument& operator=(const XmlDocument&) = delete;

  XmlElement root() const;

 private:
  friend class XmlElement;
  void CheckShape() const;
  void CheckAttribute(pugi::xml_node node, pugi::xml_attribute attribute) const;
  [[noreturn]] void Refuse(std::size_t offset, const std::string& reason) const;
  std::size_t LineOf(std::size_t offset) const;

  std::string_view text_;
  std::vector<std::size_t> line_ends_;
  std::string name_;
  pugi::xml_document document_;
};

class XmlElement {
 public:
  XmlElement(const XmlDocument& document, pugi::xml_node node) : document_(&document), node_(node) {}

  std::string_view name() const { return node_.name(); }
  std::vector<XmlElement> children() const;  // elements only
  std::size_t line() const;

  bool Has(const char* attribute) const { return !node_.attribute(attribute).empty(); }
  // The value, or `fallback` if there is no such attribute.
  std::string_view Text(const char* attribute, std::string_view fallback = {}) const;
  std::string_view RequiredText(const char* attribute) const;
  // Whole number, decimal or with 0x; refuses anything else, and values outside low..high.
  long long Integer(const char* attribute, long long low, long long high, long long fallback) const;
  long long RequiredInteger(const char* attribute, long long low, long long high) const;
  double Number(const char* attribute, double low, double high, double fallback) const;

  template <typename... Args>
  [[noreturn]] void Refuse(fmt::format_string<Args...> format, Args&&... args) const {
    document_->Refuse(static_cast<std::size_t>(node_.offset_debug()), fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  const XmlDocument* document_;
  pugi::xml_node node_;
};

}  // namespace tutti::xml
